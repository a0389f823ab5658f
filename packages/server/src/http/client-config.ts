/** The configuration that servers send to clients, with the defaults of the official client. */

export const officialClientConfig = {
  pjwtAuthEnabled: false,
  credentialDefaultSource: "api_key",
  sampleDispatchBytesSemaphoreSize: 10 * 1024 * 1024,
  inflightResponseBytesSemaphoreSize: 50 * 1024 * 1024,
  parallelFwdbwdChunks: true,
  protoCompressFwdbwd: false,
  fwdbwdMaxChunkLen: 1024,
  fwdbwdMaxChunkBytesCount: 5_000_000,
  fwdbwdDispatchBytesSemaphoreSize: 50_000_000,
  billingExceptionMaxPauseDurationSec: 3600,
  sampleNoRetries: false,
  sampleEnableStuckDetection: true,
  sampleMaxConcurrentRequests: 2000,
  usePyqwestTransport: false,
  createModelViaLoadWeights: false,
  sampleUseRetrieveFutures: false,
  customLossServerSide: false,
  sampleJoinSamplingSession: false,
} as const;

export const officialDynamicConfig = {
  refreshIntervalSec: 300,
  sampleCancelEnabled: true,
  sampleCancelMaxBatchSize: 64,
} as const;
