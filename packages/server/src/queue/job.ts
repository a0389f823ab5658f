/** A pending request (`Job`), the state that all parts of the queue share (`QueueContext`), and functions that both runners use. */
import { ConfigError, InputError, MemoryError, ModelError } from "@tinklet/engine";
import type { ForwardBackwardRequest } from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";
import { InvalidInputError, ResponseValidationError, TinkerError } from "@tinklet/wire/errors";
import type { Limits } from "../limits.ts";
import type { Log } from "../log.ts";

import type { Store } from "../store/store.ts";
import { StoreError } from "../store/store-error.ts";
import {
  type Failure,
  getRequest,
  type PayloadType,
  type RequestHead,
  type RequestKind,
} from "../store/tables/requests.ts";
import type { Usage } from "../store/tables/usage.ts";
import type { SideThread } from "../thread/side-thread.ts";
import { decodePass } from "./engine-input.ts";
import type { Futures } from "./futures.ts";
import type { Completions, CompletionTarget } from "./sampling/finished-samples.ts";
import type { TokenFeeds } from "./sampling/token-feed.ts";
import type { TokenRateMeter } from "./sampling/token-rates.ts";
import type { CrashQuarantine } from "./scheduling/crash-quarantine.ts";
import type { StepFeed } from "./training/step-feed.ts";
import { wireMessage } from "./wire-field.ts";

/** Parameters that the server chose when it accepted the request. They are stored, so that a second run gives the same result. */
export interface ResolvedParams {
  /** Seed of an adapter's initialization, or of the first sequence of a sample. */
  readonly seed?: number;
  /** The tenant whose weights the request's access token may read. */
  readonly accessTenant?: string;
  /** Sequences that a sample asks for (`num_samples`). */
  readonly sequences?: number;
  /** Base model of a sample without a sampling session. */
  readonly baseModel?: string;
  /** Adapter files of a sample without a sampling session. */
  readonly filesId?: string;
  /** Id of the custom loss of a pass; such a pass takes two engine calls. */
  readonly customLoss?: string;
  /** Whether its tokens are streamed while they are decoded. */
  readonly stream?: boolean;
  /** Index of the client in its sampling session; absent for the first one. See `finished-samples.ts`. */
  readonly client?: number;
}

export interface Job {
  readonly id: number;
  readonly tenant: string;
  readonly sessionId: string;
  readonly kind: RequestKind;
  readonly modelId: string | undefined;
  readonly samplerId: string | undefined;
  readonly seq: number | undefined;
  readonly payloadType: PayloadType;
  readonly resolvedParams: ResolvedParams;
  readonly tokens: number;
  readonly bytes: number;
  readonly acceptedAt: number;
  startedAt: number | undefined;
  /** Why it cannot run, when the reason is not the requests before it. */
  blocked: string | undefined;
  /** How often the engine died while it ran this request. */
  engineDeaths: number;
  /** Whether it was pending when this process started. */
  readonly recovered: boolean;
  /** How often a process crashed or was killed while it ran this request. */
  readonly deaths: number;
}

export function jobOf(row: RequestHead): Job {
  return {
    id: row.id,
    tenant: row.tenant,
    sessionId: row.session_id,
    kind: row.kind,
    modelId: row.model_id ?? undefined,
    samplerId: row.sampler_id ?? undefined,
    seq: row.seq ?? undefined,
    payloadType: row.payload_type,
    resolvedParams: row.draws === null ? {} : (JSON.parse(row.draws) as ResolvedParams),
    tokens: row.tokens,
    bytes: row.payload_bytes,
    acceptedAt: row.accepted_at,
    startedAt: undefined,
    blocked: undefined,
    engineDeaths: 0,
    recovered: true,
    deaths: row.starts,
  };
}

/** The client of a sampling session that a sample belongs to; `undefined` without a sampling session. */
export const targetOf = ({
  samplerId,
  resolvedParams,
}: Pick<Job, "samplerId"> & { readonly resolvedParams?: ResolvedParams }): CompletionTarget | undefined =>
  samplerId === undefined ? undefined : { samplerId, client: resolvedParams?.client ?? 0 };

const payloadCacheBytes = 64 * 1024 * 1024;
const sizeOf = (payload: Uint8Array, pass: unknown): number => payload.byteLength * (pass === undefined ? 1 : 2);

/** Payloads of recently accepted requests, which saves reading them from the database. Limited to 64 MiB. */
export class PayloadCache {
  readonly #held = new Map<
    number,
    { readonly payload: Uint8Array; readonly pass: ForwardBackwardRequest | undefined }
  >();
  #bytes = 0;

  /** @param pass - the decoded payload, if available; its arrays are about as large as the payload. */
  set(id: number, payload: Uint8Array, pass?: ForwardBackwardRequest): void {
    const bytes = sizeOf(payload, pass);
    if (this.#bytes + bytes > payloadCacheBytes) return;
    this.#held.set(id, { payload, pass });
    this.#bytes += bytes;
  }

  get(id: number): Uint8Array | undefined {
    return this.#held.get(id)?.payload;
  }

  pass(id: number): ForwardBackwardRequest | undefined {
    return this.#held.get(id)?.pass;
  }

  delete(id: number): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    this.#bytes -= sizeOf(held.payload, held.pass);
    this.#held.delete(id);
  }
}

/** What all parts of the queue share. */
export interface QueueContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Limits;
  readonly futures: Futures;
  readonly feeds: TokenFeeds;
  readonly completions: Completions;
  readonly payloads: PayloadCache;
  /** The thread that runs custom losses. */
  readonly losses: SideThread;
  /** The thread that reads imported adapters. */
  readonly imports: SideThread;
  readonly quarantine: CrashQuarantine;
  /** Notifies watchers of stored steps and changed runs. */
  readonly steps: StepFeed;
  readonly rates: TokenRateMeter;
  readonly closing: AbortSignal;
  readonly onPoint?: ((point: string) => void) | undefined;
  /** Called with the usage of a request: after it was stored, or for a transient sample while it is being stored. */
  readonly onUsed: (tenant: string, usage: Usage) => void;
  /** Called when a request has finished and its result is stored. */
  readonly onFinished: (job: Job, outcome: "done" | "failed") => void;
}

export function payloadOf(context: QueueContext, job: Job): Uint8Array {
  const kept = context.payloads.get(job.id) ?? getRequest(context.store.db.sql, job.id)?.payload;
  if (kept === undefined) throw new Error(`request ${job.id} has no payload`);
  return kept;
}

/** The decoded pass of a request: from the cache, or decoded from its payload. */
export const passOf = (context: QueueContext, job: Job): ForwardBackwardRequest =>
  context.payloads.pass(job.id) ?? decodePass(payloadOf(context, job), job.payloadType);

/** Repeats a write to the store every second until it succeeds or the server closes: a full disk must not fail an accepted request. */
export async function untilStored<T>(
  context: QueueContext,
  job: Pick<Job, "id" | "blocked">,
  work: () => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      const value = await work();
      job.blocked = undefined;
      return value;
    } catch (error) {
      if (!(error instanceof StoreError) || context.closing.aborted) throw error;
      if (job.blocked === undefined)
        context.log.error("store.write_failed", { request: job.id, reason: error.message });
      job.blocked = error.message;
      await context.clock.sleep(1000, context.closing);
    }
  }
}

/**
 * Removes the `unowned` marker of a folder whose row is committed. After a failure here the next start removes it. The folder is pinned
 * meanwhile: if its row were deleted at the same time, this would remove the new marker.
 */
export async function markOwned({ store, log }: QueueContext, filesId: string): Promise<void> {
  const unpin = store.pin(filesId);
  try {
    await store.files.markOwned(filesId, true);
  } catch (error) {
    log.warn("files.mark_failed", { files: filesId, error: String(error) });
  } finally {
    unpin();
  }
}

/** The request is invalid; found while it runs. Its message is sent to the client. */
export class UserError extends Error {
  override readonly name = "UserError";
}

/** The message and the category that a client receives for an error. Unknown errors are only logged, because they may contain paths. */
export function failureOf(error: unknown): Failure {
  if (error instanceof InputError) return { error: wireMessage(error), category: "user" };
  const user =
    error instanceof UserError ||
    error instanceof ConfigError ||
    error instanceof MemoryError ||
    error instanceof InvalidInputError ||
    error instanceof ResponseValidationError;
  if (user) return { error: (error as Error).message, category: "user" };
  const isPublic = error instanceof StoreError || error instanceof TinkerError || error instanceof ModelError;
  return {
    error: isPublic ? error.message : "The request failed in the server. The server's log has the reason.",
    category: "server",
  };
}
