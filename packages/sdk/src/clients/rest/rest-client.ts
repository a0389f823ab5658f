/**
 * `RestClient`: runs, checkpoints, sessions, billing and audit. Needs no session. Every call is one request, except archives and traces,
 * which the server may have to prepare.
 */

import {
  type AccessScope,
  type AuditEventType,
  type AuditLogResponse,
  type BillingUsageResponse,
  type Checkpoint,
  type CheckpointArchiveUrlResponse,
  type CheckpointsListResponse,
  type CopyWeightsResponse,
  type CurrentCheckpointStorageUsageResponse,
  type ExternalWeightsUrlsResponse,
  type GetSamplerResponse,
  type GetSessionResponse,
  type InputTypeOf,
  type ListSessionsResponse,
  mirroredSdkVersion,
  ParsedCheckpointTinkerPath,
  type QueryTime,
  type RequestOf,
  type ResponseOf,
  type SessionSearchRequest,
  type SessionSearchResponse,
  snakeCase,
  type TrainingRun,
  type TrainingRunsResponse,
  type WeightsInfoResponse,
  type WhoamiResponse,
} from "@tinklet/wire/client";
import { InvalidInputError, TinkerError } from "@tinklet/wire/errors";
import { checkOptions, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import { environment } from "../../transport/environment.ts";
import type { FailureFacts } from "../../transport/hints.ts";
import type { CallOptions } from "../../transport/transport.ts";
import type { DownloadProgress } from "../files/download.node.ts";
import { type ClientOptions, callNames, type OperationOptions } from "../options.ts";
import { Session } from "../session/session.ts";
import type { Telemetry } from "../session/telemetry.ts";
import type { TrainingClient } from "../training/training-client.ts";
import { PagedList, type PageRequest } from "./paged-list.ts";

/** Options of calls that can include other owners' runs, checkpoints and sessions. */
export interface ScopeOptions extends CallOptions {
  /** @defaultValue `owned` */
  readonly accessScope?: AccessScope | undefined;
}

/** Pagination of a listing. */
export interface PageOptions extends CallOptions {
  /** Maximum number of items per page. */
  readonly limit?: number | undefined;
  /** Items to skip. @defaultValue 0 */
  readonly offset?: number | undefined;
}

const scopeNames: OptionNames<ScopeOptions> = { ...callNames, accessScope: true };
const pageNames: OptionNames<PageOptions> = { ...callNames, limit: true, offset: true };

/** Creates a training client. Passed in, because the modules of the clients would otherwise import each other. */
type OpenTraining = (path: string, options: OperationOptions) => PromiseLike<TrainingClient>;

/** Names of API methods in requests of a client without a session, where they differ from the route's name here. */
const methodNames: Partial<Record<RestOperation, string>> = {
  publishCheckpoint: "publish_checkpoint_from_tinker_path",
  unpublishCheckpoint: "unpublish_checkpoint_from_tinker_path",
  setCheckpointTtl: "set_checkpoint_ttl_from_tinker_path",
  weightsInfo: "get_weights_info_by_tinker_path",
};

/**
 * Client for runs, checkpoints, sessions, billing and audit. It has its own connections and no session, or shares the connections of a
 * service ({@link ServiceClient.createRestClient}).
 *
 * Methods return a `Promise`; listings return a {@link PagedList}: a page when awaited, every item when iterated.
 *
 * @example
 * ```ts
 * const rest = new RestClient(); // TINKER_API_KEY, TINKER_BASE_URL; close() it when done
 * for await (const run of rest.listTrainingRuns()) console.log(run.trainingRunId, run.baseModel);
 * ```
 */
export class RestClient {
  readonly #session: Session;
  readonly #openTraining: OpenTraining;
  /** Functions that close its own connections; empty if the connections belong to a service. */
  readonly #closers: (() => Promise<void>)[] = [];

  /** Does no I/O; the first call connects. @throws {@link TinkerError} when there is no usable key or URL. */
  constructor(from: Session | ClientOptions = {}, openTraining?: OpenTraining) {
    if (from instanceof Session) {
      this.#session = from;
    } else {
      const session = new Session({ telemetry: false, ...from });
      this.#session = session;
      this.#closers.push(() => session.close());
    }
    this.#openTraining = openTraining ?? ((path, options) => this.#openAlone(path, options));
  }

  /** Creates a training client with its own session for the duration of an export. */
  async #openAlone(path: string, options: OperationOptions): Promise<TrainingClient> {
    const { ServiceClient } = await import("../service-client.ts");
    const service = new ServiceClient(this.#session.options);
    this.#closers.push(() => service.close());
    return service.createTrainingClientFromState(path, options);
  }

  /** Closes the client's own connections; those of a service stay open. */
  async close(): Promise<void> {
    await Promise.all(this.#closers.splice(0).map((close) => close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #call<K extends RestOperation>(
    operation: K,
    request: RequestOf<K>,
    options: CallOptions,
    known: Readonly<Record<string, true>> = callNames,
    facts?: Partial<FailureFacts>,
  ): Promise<ResponseOf<K>> {
    checkOptions(operation, options, known);
    const { headers } = options;
    const method = {
      "x-sdk-version": mirroredSdkVersion,
      "x-sdk-method": methodNames[operation] ?? snakeCase(operation),
    };
    return this.#session.call(operation, request, {
      ...callOptions(options),
      headers: { ...method, ...headers },
      ...omitUndefined({ facts }),
    });
  }

  // ---- training runs ------------------------------------------------------------------------------------------------

  /** Information about a training run. Its id is the `modelId` of the client that trained it. */
  getTrainingRun(trainingRunId: string, options: ScopeOptions = {}): Promise<TrainingRun> {
    return this.#call("getTrainingRun", { trainingRunId, ...scope(options) }, options, scopeNames);
  }

  /** The training run of a checkpoint. @param tinkerPath - path of any checkpoint of the run */
  async getTrainingRunByTinkerPath(tinkerPath: string, options: ScopeOptions = {}): Promise<TrainingRun> {
    return this.getTrainingRun(ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath).trainingRunId, options);
  }

  /** Training runs, newest first: a page when awaited, all of them when iterated. @defaultValue limit 20 */
  listTrainingRuns(
    options: PageOptions & ScopeOptions & { readonly projectId?: string } = {},
  ): PagedList<TrainingRunsResponse, TrainingRun> {
    const { projectId } = options;
    return new PagedList<TrainingRunsResponse, TrainingRun>({
      first: page(options, 20),
      fetch: (at) =>
        this.#call("listTrainingRuns", { ...at, ...scope(options), ...omitUndefined({ projectId }) }, options, {
          ...pageNames,
          ...scopeNames,
          projectId: true,
        }),
      items: (response) => response.trainingRuns,
      total: (response) => response.cursor?.totalCount,
    });
  }

  // ---- checkpoints --------------------------------------------------------------------------------------------------

  /** All checkpoints of one run, newest first. */
  listCheckpoints(trainingRunId: string, options: CallOptions = {}): Promise<CheckpointsListResponse> {
    return this.#call("listCheckpoints", { trainingRunId }, options);
  }

  /** Checkpoints of all runs: a page when awaited, all of them when iterated. @defaultValue limit 100 */
  listUserCheckpoints(options: PageOptions = {}): PagedList<CheckpointsListResponse, Checkpoint> {
    return new PagedList<CheckpointsListResponse, Checkpoint>({
      first: page(options, 100),
      fetch: (at) => this.#call("listUserCheckpoints", at, options, pageNames),
      items: (response) => response.checkpoints,
      total: (response) => response.cursor?.totalCount,
    });
  }

  /**
   * Download URL of a checkpoint's archive and its expiry. Waits while the server builds the archive.
   *
   * @example
   * ```ts
   * const { url, expires } = await rest.getCheckpointArchiveUrl("run-1", "sampler_weights/final");
   * console.log(url, expires.toISOString());
   * ```
   */
  async getCheckpointArchiveUrl(
    trainingRunId: string,
    checkpointId: string,
    options: CallOptions = {},
  ): Promise<CheckpointArchiveUrlResponse> {
    checkOptions("getCheckpointArchiveUrl", options, callNames);
    return this.#session.within("getCheckpointArchiveUrl", options, async (inner) => {
      const { archiveUrl } = await import("./rest-waits.ts");
      return archiveUrl(this.#session, { trainingRunId, checkpointId }, callOptions(inner));
    });
  }

  /** As {@link getCheckpointArchiveUrl}, by path. */
  async getCheckpointArchiveUrlFromTinkerPath(
    tinkerPath: string,
    options: CallOptions = {},
  ): Promise<CheckpointArchiveUrlResponse> {
    const { trainingRunId, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath);
    return this.getCheckpointArchiveUrl(trainingRunId, checkpointId, options);
  }

  /**
   * Downloads a checkpoint's files to a folder. A failed download leaves the folder unchanged. Works with every server: hosted, remote and
   * {@link ServiceClient.local}. Node only. An extension: the Python SDK has it in its command line only.
   *
   * @param folder - created if it does not exist; an empty folder, or one that contains only the files of a checkpoint, is replaced
   * @param options.onProgress - called for every chunk received
   * @returns the number of bytes received
   *
   * @throws {@link InvalidInputError} when the folder contains other files. {@link TinkerError} with code `download_failed`,
   *   `write_failed` or `disk_full`.
   */
  async downloadCheckpoint(
    tinkerPath: string,
    folder: string,
    options: CallOptions & { readonly onProgress?: ((progress: DownloadProgress) => void) | undefined } = {},
  ): Promise<{ readonly bytes: number }> {
    checkOptions("downloadCheckpoint", options, { ...callNames, onProgress: true });
    const { onProgress } = options;
    ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath);
    return this.#session.within("downloadCheckpoint", options, async ({ signal }) => {
      const { fetchCheckpointInto } = await import("../files/checkpoint-files.node.ts");
      const bytes = await fetchCheckpointInto(tinkerPath, folder, this.#fetching(signal, onProgress));
      return { bytes };
    });
  }

  /**
   * Exports a checkpoint for other programs: the adapter with the names of PEFT (`peft`) or with those that `weights.build_hf_model` of the
   * official cookbook expects (`tinker`), or the adapter merged into its base model as a folder for transformers
   * (`merged`) or as a file for llama.cpp and compatible programs (`gguf`, with tokenizer and chat template). The output appears when it
   * is complete. The base model must be available on this machine or on the Hugging Face Hub. Node only.
   *
   * @param out - path of the new file (`gguf`) or folder; it must not exist
   * @param options.dtype - `merged`: `base` (the base model's type), `f32`, `f16`, `bf16`; `gguf`: `f16`, `q8_0`, `bf16`, `f32`.
   *   @defaultValue the first of each
   * @param options.baseModel - the base model: a folder, a file, or a Hub name. @defaultValue the server's name of the base model
   * @param options.onProgress - called for every chunk received
   * @param options.onTensor - called for every tensor that is written
   * @returns `notes` for users of the result
   *
   * @throws {@link InvalidInputError} for an invalid option. {@link TinkerError} with code `base_model_not_found`,
   *   `export_failed`, `missing_peer`, or one of {@link downloadCheckpoint}.
   *
   * @example
   * ```ts
   * await rest.exportCheckpoint("tinker://…/sampler_weights/final", "pirate.gguf", { format: "gguf", dtype: "q8_0" });
   * ```
   */
  async exportCheckpoint(
    tinkerPath: string,
    out: string,
    options: CallOptions & {
      readonly format: "peft" | "tinker" | "merged" | "gguf";
      readonly dtype?: "base" | "f32" | "f16" | "bf16" | "q8_0" | undefined;
      readonly baseModel?: string | undefined;
      readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
      readonly onTensor?: ((progress: { tensor: string; done: number; total: number }) => void) | undefined;
    },
  ): Promise<{ readonly path: string; readonly bytes: number; readonly notes: readonly string[] }> {
    const { onProgress, ...rest } = options;
    const own = { format: true, dtype: true, baseModel: true, onProgress: true, onTensor: true } as const;
    checkOptions("exportCheckpoint", options, { ...callNames, ...own });
    ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath);
    let running: Promise<unknown> | undefined;
    try {
      return await this.#session.within("exportCheckpoint", options, async ({ signal }) => {
        const { exportCheckpoint } = await import("../files/checkpoint-export.node.ts");
        const how = { ...rest, onDownload: onProgress, ...this.#fetching(signal, onProgress) };
        const written = exportCheckpoint(tinkerPath, out, how);
        running = written;
        return await written;
      });
    } finally {
      await running?.catch(() => {}); // an abort rejects after the cleanup is done
    }
  }

  /** Options for downloading files of checkpoints. */
  #fetching(signal: AbortSignal | undefined, onProgress: (progress: DownloadProgress) => void = () => {}) {
    // A local server has no socket: its links are fetched with the client's own fetch.
    const { fetch, proxy } = this.#session.options;
    return {
      fetch: async (url: string, init: RequestInit = {}) => {
        if (fetch !== undefined) return fetch(url, init);
        if (proxy === undefined) return globalThis.fetch(url, init);
        return (await import("../../transport/proxy.node.ts")).fetchThrough(proxy, url, init);
      },
      signal,
      onProgress,
      rest: this,
      openTraining: (path: string) => this.#openTraining(path, { signal }),
    };
  }

  /**
   * Download URL of each file of an external checkpoint, and their expiry. Needs a server of 0.28.
   *
   * @param tinkerPath - the path that `TrainingClient.saveWeightsExternal` returned
   */
  async getExternalWeightsUrls(tinkerPath: string, options: CallOptions = {}): Promise<ExternalWeightsUrlsResponse> {
    const { trainingRunId, checkpointType, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath);
    if (checkpointType !== "external") {
      throw new InvalidInputError("tinkerPath", `${JSON.stringify(tinkerPath)} is not an external checkpoint`, {
        hint: "Create one with TrainingClient.saveWeightsExternal.",
      });
    }
    const name = checkpointId.slice("external_weights/".length);
    return this.#call("getExternalWeightsUrls", { trainingRunId, name }, options);
  }

  /**
   * Copies a checkpoint to one of your projects. The copy is independent of the original. Needs a server of 0.34.
   *
   * @param options.destinationProjectId - the target project. @defaultValue `TINKER_PROJECT_ID`
   * @param options.weightsAccessToken - access token for another account's weights
   */
  async copyWeights(
    sourcePath: string,
    options: CallOptions & {
      readonly destinationProjectId?: string | undefined;
      readonly ttlSeconds?: number | undefined;
      readonly weightsAccessToken?: string | undefined;
    } = {},
  ): Promise<CopyWeightsResponse> {
    ParsedCheckpointTinkerPath.fromTinkerPath(sourcePath);
    const { ttlSeconds, weightsAccessToken, headers } = options;
    const destinationProjectId = options.destinationProjectId ?? environment("TINKER_PROJECT_ID");
    const request = {
      sourcePath,
      ...omitUndefined({ destinationProjectId, ttlSeconds }),
    };
    const token = omitUndefined({ "x-tinker-weights-access-token": weightsAccessToken });
    const known = { ...callNames, destinationProjectId: true, ttlSeconds: true, weightsAccessToken: true } as const;
    return this.#call("copyWeights", request, { ...options, headers: { ...headers, ...token } }, known);
  }

  /** Deletes a checkpoint permanently. @param checkpointId - `weights/<name>` or `sampler_weights/<name>` */
  async deleteCheckpoint(trainingRunId: string, checkpointId: string, options: CallOptions = {}): Promise<void> {
    await this.#call("deleteCheckpoint", { trainingRunId, checkpointId }, options);
  }

  /** As {@link deleteCheckpoint}, by path. */
  async deleteCheckpointFromTinkerPath(tinkerPath: string, options: CallOptions = {}): Promise<void> {
    await this.#call("deleteCheckpoint", checkpointOf(tinkerPath), options);
  }

  /** Makes a checkpoint public. */
  async publishCheckpointFromTinkerPath(tinkerPath: string, options: CallOptions = {}): Promise<void> {
    await this.#call("publishCheckpoint", checkpointOf(tinkerPath), options);
  }

  /** Makes a checkpoint private again. */
  async unpublishCheckpointFromTinkerPath(tinkerPath: string, options: CallOptions = {}): Promise<void> {
    await this.#call("unpublishCheckpoint", checkpointOf(tinkerPath), options);
  }

  /**
   * Sets the time to live of a checkpoint, counted from now.
   *
   * @param ttlSeconds - time to live in seconds; null for no expiry
   *
   * @example
   * ```ts
   * await rest.setCheckpointTtlFromTinkerPath("tinker://run-1/weights/epoch-1", 3600);
   * await rest.publishCheckpointFromTinkerPath("tinker://run-1/weights/final");
   * await rest.deleteCheckpointFromTinkerPath("tinker://run-1/weights/epoch-0");
   * ```
   */
  async setCheckpointTtlFromTinkerPath(
    tinkerPath: string,
    ttlSeconds: number | null,
    options: CallOptions = {},
  ): Promise<void> {
    await this.#call("setCheckpointTtl", { ...checkpointOf(tinkerPath), ttlSeconds }, options);
  }

  /** Base model and LoRA configuration of a checkpoint. */
  async getWeightsInfoByTinkerPath(tinkerPath: string, options: CallOptions = {}): Promise<WeightsInfoResponse> {
    return this.#call("weightsInfo", { tinkerPath }, options, callNames, { path: tinkerPath });
  }

  // ---- sessions and samplers ----------------------------------------------------------------------------------------

  /** The runs and samplers of a session. */
  getSession(sessionId: string, options: ScopeOptions = {}): Promise<GetSessionResponse> {
    return this.#call("getSession", { sessionId, ...scope(options) }, options, scopeNames);
  }

  /** Ids of sessions: a page when awaited, all of them when iterated. @defaultValue limit 20 */
  listSessions(options: PageOptions & ScopeOptions = {}): PagedList<ListSessionsResponse, string> {
    return new PagedList<ListSessionsResponse, string>({
      first: page(options, 20),
      fetch: (at) => this.#call("listSessions", { ...at, ...scope(options) }, options, { ...pageNames, ...scopeNames }),
      items: (response) => response.sessions,
      total: () => undefined,
    });
  }

  /**
   * Sessions by metadata, name, project or status, newest first. Needs a server of 0.36.
   *
   * @example
   * ```ts
   * const { sessions } = await rest.searchSessions({ displayName: "maths", statuses: [{ type: "active" }] });
   * for (const { sessionId, displayName } of sessions) console.log(sessionId, displayName);
   * ```
   */
  searchSessions(
    search: InputTypeOf<typeof SessionSearchRequest> = {},
    options: CallOptions = {},
  ): Promise<SessionSearchResponse> {
    return this.#call("searchSessions", search, options);
  }

  /** Assigns a session and its usage to a project. */
  async assignSessionProject(sessionId: string, projectId: string, options: CallOptions = {}): Promise<void> {
    await this.#call("assignSessionProject", { sessionId, projectId }, options);
  }

  /** Exports a session's trace and returns its download URL. Waits until it is ready. */
  async exportSessionTrace(sessionId: string, options: CallOptions = {}): Promise<string> {
    checkOptions("exportSessionTrace", options, callNames);
    return this.#session.within("exportSessionTrace", options, async (inner) => {
      const { traceUrl } = await import("./rest-waits.ts");
      return traceUrl(
        this.#session,
        sessionId,
        () => this.#call("exportSessionTrace", { sessionId }, inner),
        inner.signal,
      );
    });
  }

  /** Base model and checkpoint of a sampler. */
  getSampler(samplerId: string, options: CallOptions = {}): Promise<GetSamplerResponse> {
    return this.#call("getSampler", { samplerId }, options);
  }

  // ---- account ------------------------------------------------------------------------------------------------------

  /**
   * User of this credential, read from the claims of its token. Sends no request except those of connecting, which include the exchange of
   * the key for a token if the server requires it.
   *
   * @throws {@link TinkerError} with code `whoami_unavailable` if the server uses plain API keys, which have no claims.
   */
  async whoami(options: CallOptions = {}): Promise<WhoamiResponse> {
    checkOptions("whoami", options, callNames);
    return this.#session.within("whoami", options, (inner) => this.#session.whoami(inner));
  }

  /**
   * Hourly usage between two times.
   *
   * @example
   * ```ts
   * const usage = await rest.getBillingUsage(new Date("2026-11-01"), new Date("2026-12-01"));
   * for (const { bucketStart, eventInfo } of usage.data) console.log(bucketStart, eventInfo.type);
   * ```
   */
  getBillingUsage(
    startingOn: QueryTime,
    endingBefore: QueryTime,
    options: CallOptions = {},
  ): Promise<BillingUsageResponse> {
    return this.#call("getBillingUsage", { startingOn, endingBefore }, options);
  }

  /** Current checkpoint storage by project and user. Needs a server of 0.32. */
  getCurrentCheckpointStorageUsage(
    options: CallOptions & { readonly projectId?: string } = {},
  ): Promise<CurrentCheckpointStorageUsageResponse> {
    const { projectId } = options;
    const request = omitUndefined({ projectId });
    return this.#call("getCurrentCheckpointStorageUsage", request, options, { ...callNames, projectId: true });
  }

  /** Entries of the audit log. @param options.day - the day, as a Date (in UTC) or `YYYY-MM-DD` */
  async getAuditLog(
    options: CallOptions & { readonly eventType?: AuditEventType; readonly day?: Date | string } = {},
  ): Promise<AuditLogResponse> {
    const { eventType, day } = options;
    const request = {
      ...omitUndefined({ eventType }),
      ...(day === undefined ? {} : { day: dayText(day) }),
    };
    return this.#call("getAuditLog", request, options, { ...callNames, eventType: true, day: true });
  }

  /** Telemetry of this session, or `undefined` when it is disabled. */
  getTelemetry(): Telemetry | undefined {
    return this.#session.telemetry;
  }
}

type RestOperation =
  | "getTrainingRun"
  | "listTrainingRuns"
  | "listCheckpoints"
  | "listUserCheckpoints"
  | "deleteCheckpoint"
  | "publishCheckpoint"
  | "unpublishCheckpoint"
  | "setCheckpointTtl"
  | "getSession"
  | "listSessions"
  | "assignSessionProject"
  | "exportSessionTrace"
  | "getSampler"
  | "getBillingUsage"
  | "getExternalWeightsUrls"
  | "weightsInfo"
  | "copyWeights"
  | "searchSessions"
  | "getCurrentCheckpointStorageUsage"
  | "getAuditLog";

/** Selects the {@link CallOptions} of an options object. */
export function callOptions({ signal, timeoutMs, maxRetries, headers, token }: CallOptions): CallOptions {
  return { signal, timeoutMs, maxRetries, headers, token };
}

const scope = ({ accessScope }: ScopeOptions) => omitUndefined({ accessScope });

function page({ limit, offset }: PageOptions, defaultLimit: number): PageRequest {
  const whole = (field: string, value: number, least: number) => {
    if (Number.isInteger(value) && value >= least) return value;
    throw new InvalidInputError(field, `must be an integer of at least ${least}, got ${value}`);
  };
  return { limit: whole("limit", limit ?? defaultLimit, 1), offset: whole("offset", offset ?? 0, 0) };
}

function checkpointOf(tinkerPath: string): { trainingRunId: string; checkpointId: string } {
  const { trainingRunId, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath);
  return { trainingRunId, checkpointId };
}

function dayText(day: Date | string): string {
  const text = typeof day === "string" ? day : day.toISOString().slice(0, 10);
  if (/^\d{4}-\d{2}-\d{2}$/.test(text)) return text;
  throw new InvalidInputError("day", `must be a Date or YYYY-MM-DD, got ${JSON.stringify(day)}`);
}
