/** An accepted request on its way through the queue, and what the parts of the queue share. */
import { ConfigError, InputError, MemoryError, ModelError } from "@tinklet/engine";
import type { ForwardBackwardRequest } from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";
import { InvalidInputError, ResponseValidationError, TinkerError } from "@tinklet/wire/errors";
import type { Limits } from "../limits.ts";
import type { Log } from "../log.ts";
import type { Sql } from "../store/database.ts";
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

/** What the server drew or resolved when it accepted a request, so that running it again gives the same. */
export interface ResolvedParams {
  /** Of an adapter, or of a request's first sample. */
  readonly seed?: number;
  /** The tenant whose weights the request's access token opens. */
  readonly accessTenant?: string;
  /** Samples asked for. */
  readonly sequences?: number;
  /** Base model of a sample without a sampling session. */
  readonly baseModel?: string;
  /** Adapter files of a sample without a sampling session. */
  readonly filesId?: string;
  /** A pass by a stored loss, which takes two calls of the engine. */
  readonly customLoss?: string;
  /** Whether its tokens are shown while they are drawn. */
  readonly stream?: boolean;
  /** Which client of its sampling session asked, where that is not the first: see `completions.ts`. */
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
  /** Why it is not running, when that is not the requests before it. */
  blocked: string | undefined;
  /** How often the engine died under it. */
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

/** The line of completions that a sample belongs to; none where it has no sampling session. */
export const targetOf = ({
  samplerId,
  resolvedParams,
}: Pick<Job, "samplerId"> & { readonly resolvedParams?: ResolvedParams }): CompletionTarget | undefined =>
  samplerId === undefined ? undefined : { samplerId, client: resolvedParams?.client ?? 0 };

const payloadCacheBytes = 64 * 1024 * 1024;
const sizeOf = (payload: Uint8Array, pass: unknown): number => payload.byteLength * (pass === undefined ? 1 : 2);

/** Payloads of requests that were just accepted, so that they need not be read back. Bounded; the database has them all. */
export class PayloadCache {
  readonly #held = new Map<
    number,
    { readonly payload: Uint8Array; readonly pass: ForwardBackwardRequest | undefined }
  >();
  #bytes = 0;

  /** @param pass - what the payload says, when it was decoded already: its arrays are about as large as the payload. */
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

/** What every part of the queue works with. */
export interface QueueContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Limits;
  readonly futures: Futures;
  readonly feeds: TokenFeeds;
  readonly completions: Completions;
  readonly payloads: PayloadCache;
  /** Where stored losses run. */
  readonly losses: SideThread;
  /** Where adapters from elsewhere are read. */
  readonly imports: SideThread;
  readonly quarantine: CrashQuarantine;
  /** Tells of stored steps and changed runs. */
  readonly steps: StepFeed;
  readonly rates: TokenRateMeter;
  readonly closing: AbortSignal;
  readonly onPoint?: ((point: string) => void) | undefined;
  /** Told what was used: once it is stored, or while that is under way where nobody waits for it. */
  readonly onUsed: (tenant: string, usage: Usage) => void;
  /** Told about each request that is over. */
  readonly onFinished: (job: Job, outcome: "done" | "failed") => void;
}

export function payloadOf(context: QueueContext, job: Job): Uint8Array {
  const kept = context.payloads.get(job.id) ?? getRequest(context.store.db.sql, job.id)?.payload;
  if (kept === undefined) throw new Error(`request ${job.id} has no payload`);
  return kept;
}

/** The pass of a request: as its handler decoded it, or from its payload when that is no longer at hand. */
export const passOf = (context: QueueContext, job: Job): ForwardBackwardRequest =>
  context.payloads.pass(job.id) ?? decodePass(payloadOf(context, job), job.payloadType);

/**
 * Runs a piece of storing until it succeeds: what was accepted is not given up because the disk is full for a while. Only
 * closing ends it.
 */
export async function insist<T>(
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
      if (job.blocked === undefined) context.log.error("store.waiting", { request: job.id, reason: error.message });
      job.blocked = error.message;
      await context.clock.sleep(1000, context.closing);
    }
  }
}

export const persist = <T>(context: QueueContext, job: Job, work: (sql: Sql) => T): Promise<T> =>
  insist(context, job, () => context.store.db.write(work));

/** A folder's row is committed: only its marker still says otherwise. The next start would mend what fails here. */
export const owned = ({ store, log }: QueueContext, filesId: string): Promise<void> =>
  store.files.markOwned(filesId, true).catch((error: unknown) => {
    log.warn("files.marker", { files: filesId, error: String(error) });
  });

/** A refusal of what the caller asked for, raised while a request runs. */
export class UserError extends Error {
  override readonly name = "UserError";
}

/** What a client is told about an error, and whose fault it is. Internals stay in the log. */
export function failureOf(error: unknown): Failure {
  if (error instanceof InputError) return { error: wireMessage(error), category: "user" };
  const user =
    error instanceof UserError ||
    error instanceof ConfigError ||
    error instanceof MemoryError ||
    error instanceof InvalidInputError ||
    error instanceof ResponseValidationError;
  if (user) return { error: (error as Error).message, category: "user" };
  // What other errors say (a path on the disk, a line of code) is for the log.
  const told = error instanceof StoreError || error instanceof TinkerError || error instanceof ModelError;
  return {
    error: told ? error.message : "The server failed at this request; its log says why.",
    category: "server",
  };
}
