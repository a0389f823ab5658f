/** All limits of the server. Each can be set; the defaults fit one machine with a few users. */

/** Maximum number of stored items, and of their bytes together. */
export interface StoredLimit {
  readonly count: number;
  readonly bytes: number;
}

/** Limits of the server; times are in milliseconds. */
export interface Limits {
  /** Bytes of one request body as sent, where it carries training data or a prompt. @defaultValue 64 MiB */
  readonly bodyBytes: number;
  /** Bytes of any other request body, also after decompression. @defaultValue 1 MiB */
  readonly parametersBytes: number;
  /**
   * Bytes of received request bodies and unsent responses, at once. One tenant may hold at most two thirds of what the others leave free;
   * more is answered with 429. @defaultValue 1.5 GiB
   */
  readonly bodiesBytes: number;
  /** Time without a byte of a request body after which the request is answered with 408. @defaultValue 20 000 */
  readonly bodyStallMs: number;
  /** Minimum average rate of a request body in bytes per second, checked once `bodyStallMs` has passed. @defaultValue 1024 */
  readonly bodyBytesPerSecond: number;
  /** Bytes of one body after decompression. @defaultValue 256 MiB */
  readonly decompressedBytes: number;
  /** Bytes of an adapter that is imported. @defaultValue 1 GiB */
  readonly adapterBytes: number;
  /** Depth of nested JSON. @defaultValue 64 */
  readonly jsonDepth: number;
  /** Objects, arrays and keys in one JSON body: parsed, each takes far more memory than its bytes. @defaultValue 500 000 */
  readonly jsonParts: number;
  /** Elements of all arrays in one JSON body, and entries of its objects. @defaultValue 8 million */
  readonly jsonElements: number;
  /** Datums in one training request. @defaultValue 4096 */
  readonly batchData: number;
  /** Tokens in one training request. @defaultValue 4 million */
  readonly batchTokens: number;
  /** Samples of one prompt. @defaultValue 256 */
  readonly numSamples: number;
  /** Most likely tokens per prompt position. @defaultValue 64 */
  readonly topkPromptLogprobs: number;
  /** Largest LoRA rank. @defaultValue 256 */
  readonly rank: number;
  /** Accepted requests of one tenant whose results are not stored yet; more are answered with 429 `queue_full`. @defaultValue 20 000 */
  readonly pendingPerTenant: number;
  /** The same of all tenants. @defaultValue 100 000 */
  readonly pending: number;
  /** Bytes of the accepted requests of all tenants whose results are not stored yet. @defaultValue 4 GiB */
  readonly pendingBytes: number;
  /** The same of one tenant. @defaultValue 1 GiB */
  readonly pendingBytesPerTenant: number;
  /** Custom losses that one session stores. @defaultValue 1000, of 16 MiB together */
  readonly lossesPerSession: StoredLimit;
  /** Custom losses that one tenant stores. @defaultValue 10 000, of 128 MiB together */
  readonly lossesPerTenant: StoredLimit;
  /** How long a long poll (`retrieve_future`) is held open. @defaultValue 30 000 */
  readonly pollMs: number;
  /** How long later requests of a model wait for a missing `seq_id`. @defaultValue 330 000 */
  readonly gapMs: number;
  /** Time without a heartbeat or request after which a session's models are unloaded; the next call loads them again. @defaultValue 900 000 */
  readonly staleSessionMs: number;
  /** Time without a heartbeat or request after which a session's samplers are deleted, with weights that were saved without a name. @defaultValue 1 day */
  readonly samplerTtlMs: number;
  /** Time without a heartbeat or request after which a session without a training run is deleted. @defaultValue 30 days */
  readonly sessionTtlMs: number;
  /** Adapters and snapshots that may be in the engine's memory at once. @defaultValue 32 */
  readonly residentAdapters: number;
  /** Engine time of a model's jobs in milliseconds that is worth a snapshot; shorter work is repeated after a crash. @defaultValue 2000 */
  readonly snapshotWorthMs: number;
  /** Time for snapshots as a fraction of the time for jobs. @defaultValue 0.05 */
  readonly snapshotOverhead: number;
  /** HTTP requests in flight at once, from the first byte to the last one of the response, shared by tenants as `bodiesBytes` is; more are answered with 429. @defaultValue 12 288 */
  readonly concurrentRequests: number;
  /** Connections whose last request had a valid key, shared by tenants in the same way; more are answered with 429. @defaultValue 12 288 */
  readonly connections: number;
  /** Connections without a valid key, shared by remote addresses; beyond it the longest idle one is closed. @defaultValue 2048 */
  readonly unidentifiedConnections: number;
  /** Time without progress after which the connection of a client that does not read its response is closed. @defaultValue 60 000 */
  readonly answerStallMs: number;
  /** Bytes of one request body of the chat endpoints. @defaultValue 4 MiB */
  readonly chatBytes: number;
  /** Chats at once, each until its client has read the last byte; more are answered with 429. @defaultValue 2048 */
  readonly chats: number;
  /** Chats of one tenant at once. @defaultValue 1024 */
  readonly chatsPerTenant: number;
  /** Time to render a chat's prompt; then its template is stopped. @defaultValue 10 000 */
  readonly promptMs: number;
  /** Messages of one chat. @defaultValue 4096 */
  readonly chatMessages: number;
  /** Tools of one chat. @defaultValue 128 */
  readonly chatTools: number;
  /** Stop strings of one chat. @defaultValue 16 */
  readonly chatStops: number;
  /** Log-probs in one response of a chat: choices × tokens × (1 + top log-probs), echoed prompts included. @defaultValue 400 000 */
  readonly chatScores: number;
  /** Stored responses of one tenant (`/v1/responses`); beyond them the oldest are deleted. @defaultValue 1000, of 64 MiB together */
  readonly responsesPerTenant: StoredLimit;
  /** Time after which a stored response is deleted. @defaultValue 30 days */
  readonly responseTtlMs: number;
  /** Bytes of one export of traces (`/v1/traces`), as sent. @defaultValue 8 MiB */
  readonly traceBytes: number;
  /** The same, decompressed. @defaultValue 32 MiB */
  readonly traceDecompressedBytes: number;
  /** Nested values of one export. @defaultValue 500 000 */
  readonly traceParts: number;
  /** Spans of one export. @defaultValue 10 000 */
  readonly traceSpans: number;
  /** Attributes of one span, with those of its events; a span with more is rejected. @defaultValue 1024 */
  readonly traceAttributes: number;
  /** Levels of nested values of one attribute; a span with more is rejected. @defaultValue 16 */
  readonly traceDepth: number;
  /** UTF-16 code units of one string of a span; a span with a longer one is rejected. @defaultValue 1 Mi */
  readonly traceTextLength: number;
  /** Bytes stored of one span; a larger one is rejected. @defaultValue 2 MiB */
  readonly traceSpanBytes: number;
  /** What is stored of one trace; spans beyond it are rejected. @defaultValue 1000 spans, of 16 MiB together */
  readonly spansPerTrace: StoredLimit;
  /** Spans of one tenant's traces; beyond them the oldest traces are deleted, those without a rating first. @defaultValue 200 000, of 512 MiB together */
  readonly spansPerTenant: StoredLimit;
  /** Time without a new span after which a trace is deleted. @defaultValue 30 days */
  readonly traceTtlMs: number;
  /** Time to read an export, to search a page of traces or to convert one; then the work is stopped. @defaultValue 5000 */
  readonly traceTaskMs: number;
  /** Optimizer steps stored for the curve of one run; when there are more, every second one is deleted. @defaultValue 50 000 */
  readonly stepsPerRun: number;
  /** Event streams that one tenant may have open; more are answered with 429. @defaultValue 64 */
  readonly watchersPerTenant: number;
  /** Time without an event after which a stream sends a heartbeat. @defaultValue 10 000 */
  readonly chatHeartbeatMs: number;
}

export const defaultLimits: Limits = {
  bodyBytes: 64 * 1024 * 1024,
  parametersBytes: 1024 * 1024,
  bodiesBytes: 1536 * 1024 * 1024,
  bodyStallMs: 20_000,
  bodyBytesPerSecond: 1024,
  decompressedBytes: 256 * 1024 * 1024,
  adapterBytes: 1024 * 1024 * 1024,
  jsonDepth: 64,
  jsonParts: 500_000,
  jsonElements: 8_000_000,
  batchData: 4096,
  batchTokens: 4_000_000,
  numSamples: 256,
  topkPromptLogprobs: 64,
  rank: 256,
  pendingPerTenant: 20_000,
  pending: 100_000,
  pendingBytes: 4 * 1024 * 1024 * 1024,
  pendingBytesPerTenant: 1024 * 1024 * 1024,
  lossesPerSession: { count: 1000, bytes: 16 * 1024 * 1024 },
  lossesPerTenant: { count: 10_000, bytes: 128 * 1024 * 1024 },
  pollMs: 30_000,
  gapMs: 330_000,
  staleSessionMs: 900_000,
  samplerTtlMs: 86_400_000,
  sessionTtlMs: 30 * 86_400_000,
  residentAdapters: 32,
  snapshotWorthMs: 2000,
  snapshotOverhead: 0.05,
  concurrentRequests: 12_288,
  connections: 12_288,
  unidentifiedConnections: 2048,
  answerStallMs: 60_000,
  chatBytes: 4 * 1024 * 1024,
  chats: 2048,
  chatsPerTenant: 1024,
  promptMs: 10_000,
  chatMessages: 4096,
  chatTools: 128,
  chatStops: 16,
  chatScores: 400_000,
  responsesPerTenant: { count: 1000, bytes: 64 * 1024 * 1024 },
  responseTtlMs: 30 * 86_400_000,
  traceBytes: 8 * 1024 * 1024,
  traceDecompressedBytes: 32 * 1024 * 1024,
  traceParts: 500_000,
  traceSpans: 10_000,
  traceAttributes: 1024,
  traceDepth: 16,
  traceTextLength: 1024 * 1024,
  traceSpanBytes: 2 * 1024 * 1024,
  spansPerTrace: { count: 1000, bytes: 16 * 1024 * 1024 },
  spansPerTenant: { count: 200_000, bytes: 512 * 1024 * 1024 },
  traceTtlMs: 30 * 86_400_000,
  traceTaskMs: 5000,
  stepsPerRun: 50_000,
  watchersPerTenant: 64,
  chatHeartbeatMs: 10_000,
};
