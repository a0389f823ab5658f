/**
 * Recovery of a training client's model: keeps the calls since the newest checkpoints, and when the model is lost, creates it again,
 * repeats them in order and lets the calls under way continue there. Loaded when the option `recovery` is used.
 * docs/decisions/0024-recovery.md has the reasons.
 */
import { untilAborted } from "@tinklet/wire/abort";
import { copyDatum, type DatumLike, toData, type UserMetadata } from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { InvalidInputError, TinkerError } from "@tinklet/wire/errors";
import { checkOptions, describe, type OptionNames } from "@tinklet/wire/options";
import { resumedFromKey } from "@tinklet/wire/run-name";
import { FutureState } from "../../../futures/api-future.ts";
import type { Reporter } from "../../../transport/report.ts";
import { estimateDatumBytes } from "../batching.ts";
import type { ModelRequests } from "../model-requests.ts";
import { diagnosed, type ModelLoss, ModelLostError } from "./model-loss.ts";
import type { RecoveryOptions } from "./options.ts";

/** What a call does to the model: repeats only those that change it. */
export type CallKind = "train" | "save" | "read" | "unload";

export type ModelCall<T> = (requests: ModelRequests, state: FutureState, signal: AbortSignal) => Promise<T>;

/** A call of the client, with its batch. */
interface RecoveredCall<T> {
  readonly kind: CallKind;
  readonly data: readonly DatumLike[];
  readonly work: (...on: [...Parameters<ModelCall<T>>, data: readonly DatumLike[]]) => Promise<T>;
}

/** Creates the model again: from a checkpoint with its optimizer, or as it was at first. */
export type Recreate = (path: string | undefined) => Promise<ModelRequests>;

const optionNames: OptionNames<RecoveryOptions> = {
  maxAttempts: true,
  backoffMs: true,
  checkEveryMs: true,
  maxReplayBytes: true,
};
const longestBackoffMs = 60_000;
/** Memory of a call besides its data: calls without data count, too. */
const entryBytes = 1024;
/** Older checkpoints, for the case that the newest is gone. */
const keptCheckpoints = 2;

/** @throws {@link InvalidInputError} naming the option. */
export function checkedRecovery(options: RecoveryOptions): Required<{ [K in keyof RecoveryOptions]: number }> {
  checkOptions("recovery", options, optionNames, "recovery");
  const { maxAttempts = 5, backoffMs = 1_000, checkEveryMs = 60_000, maxReplayBytes = 256 * 2 ** 20 } = options;
  const all = { maxAttempts, backoffMs, checkEveryMs, maxReplayBytes };
  for (const [name, value] of Object.entries(all)) {
    if (!Number.isSafeInteger(value) || value < (name === "maxAttempts" ? 1 : 0))
      throw new InvalidInputError(`recovery.${name}`, `must be a positive integer, got ${describe(value)}`);
  }
  return all;
}

/** One call since the oldest kept checkpoint. */
interface Entry {
  readonly kind: CallKind;
  readonly call: ModelCall<unknown>;
  readonly state: FutureState;
  readonly signal: AbortSignal;
  readonly bytes: number;
  /** `applied`: the model has it; `dropped`: the model does not, and a replay leaves it out. */
  status: "pending" | "applied" | "dropped";
  attempt: Promise<unknown>;
  /** Which of the successive models the attempt belongs to. */
  generation: number;
  stop: AbortController;
}

/** Metadata of a model that continues another one from its checkpoint: a Tinklet server gives it the same name. */
export const continuing = (path: string, userMetadata: UserMetadata | undefined): UserMetadata => ({
  ...userMetadata,
  [resumedFromKey]: path,
});

/** State and signal of a request that no caller waits for. */
export const untracked = (): [FutureState, AbortSignal] => [
  new FutureState("CreateModel", undefined),
  new AbortController().signal,
];

/** Reason of aborting an attempt on a model that was replaced. */
const superseded = new TinkerError("The model was replaced.", { code: "superseded" });

export class ModelRecovery {
  readonly #options: ReturnType<typeof checkedRecovery>;
  readonly #clock: Clock;
  readonly #reporter: Reporter;
  readonly #recreate: Recreate;
  readonly #onReplace: (requests: ModelRequests) => void;
  #requests: ModelRequests;
  #journal: Entry[] = [];
  /** Position of the first call in the journal, counted from the first call of the client. */
  #base = 0;
  #bytes = 0;
  #checkpoints: { readonly path: string; readonly position: number }[] = [];
  #generation = 0;
  #attempts = 0;
  #recovering: Promise<void> | undefined;
  /** Settles when the repeated calls have their results, or the first of them has led to another recovery. */
  #repeated: Promise<unknown> = Promise.resolve();
  #failed: Error | undefined;
  #unloaded = false;
  #checkedAtMs: number;

  constructor(parts: {
    readonly requests: ModelRequests;
    readonly options: ReturnType<typeof checkedRecovery>;
    readonly recreate: Recreate;
    readonly onReplace: (requests: ModelRequests) => void;
  }) {
    this.#requests = parts.requests;
    this.#options = parts.options;
    this.#recreate = parts.recreate;
    this.#onReplace = parts.onReplace;
    this.#clock = parts.requests.session.clock;
    this.#reporter = parts.requests.session.reporter;
    this.#checkedAtMs = this.#clock.monotonic();
  }

  /** Runs a call, on as many models as it takes. Enters the model's queue synchronously, as without recovery. */
  async run<T>({ kind, data, work }: RecoveredCall<T>, state: FutureState, signal: AbortSignal): Promise<T> {
    if (this.#failed !== undefined) throw this.#failed;
    const kept = toData(data).map(copyDatum); // the caller may change its arrays before they are sent again
    const bytes = kept.reduce((sum, datum) => sum + estimateDatumBytes(datum), entryBytes);
    const call: ModelCall<T> = (...on) => work(...on, kept);
    const stop = new AbortController();
    const entry: Entry = {
      ...{ kind, call, state, signal, bytes, stop },
      ...{ status: "pending", attempt: Promise.resolve(), generation: -1 },
    };
    const position = this.#base + this.#journal.push(entry);
    this.#bytes += bytes;
    if (this.#recovering === undefined) this.#start(entry);
    for (;;) {
      const generation = entry.generation;
      try {
        await untilAborted(this.#recovering ?? entry.attempt, signal);
        if (generation !== entry.generation) continue; // a replay has started it again
        const result = (await entry.attempt) as T;
        await untilAborted(this.#repeated, signal); // without them the result is one of other weights
        await this.#check(kind);
        if (this.#failed !== undefined) throw this.#failed;
        if (this.#recovering !== undefined || generation !== entry.generation) continue;
        entry.status = "applied";
        this.#attempts = 0;
        if (kind === "save") this.#saved(result, position);
        if (kind === "unload") this.#unloaded = true;
        this.#trim();
        return result;
      } catch (error) {
        if (signal.aborted) {
          // What was not submitted has left the queue; anything else reaches the model.
          entry.status = state.phase === "waiting" ? "dropped" : "applied";
          throw error;
        }
        if (this.#failed !== undefined) throw this.#failed;
        if (this.#recovering !== undefined || generation !== entry.generation) continue;
        const reason = await this.#reasonOf(error);
        if (this.#recovering !== undefined || generation !== entry.generation) continue;
        if (reason === undefined) {
          entry.status = "dropped";
          throw error;
        }
        this.#begin(reason, error);
      }
    }
  }

  #start(entry: Entry): void {
    entry.generation = this.#generation;
    entry.stop = new AbortController();
    const signal = AbortSignal.any([entry.signal, entry.stop.signal]);
    entry.attempt = entry.call(this.#requests, entry.state, signal);
    entry.attempt.catch(() => {});
  }

  #record = () => {
    const { session, modelId } = this.#requests;
    return session.call("getTrainingRun", { trainingRunId: modelId }, { maxRetries: 2 });
  };

  async #reasonOf(error: unknown): Promise<ModelLoss | undefined> {
    return this.#unloaded ? undefined : diagnosed(error, this.#record);
  }

  /** @throws {@link ModelLostError} when the server's record says that the model is corrupted. */
  async #check(kind: CallKind): Promise<void> {
    const now = this.#clock.monotonic();
    if (kind !== "save" && (kind !== "train" || now - this.#checkedAtMs < this.#options.checkEveryMs)) return;
    this.#checkedAtMs = now;
    const { modelId } = this.#requests;
    const run = await this.#record().catch(() => undefined); // without an answer nothing is known
    if (run?.corrupted) throw new ModelLostError(modelId, "corrupted");
  }

  #saved(result: unknown, position: number): void {
    const { path } = (result ?? {}) as { readonly path?: string };
    if (path === undefined || !path.includes("/weights/")) return; // weights for sampling have no optimizer state
    const all = [...this.#checkpoints, { path, position }].sort((a, b) => a.position - b.position);
    this.#checkpoints = all.slice(-keptCheckpoints);
  }

  /** Drops the calls that no checkpoint needs, and the oldest ones above the limit. */
  #trim(): void {
    const needed = this.#checkpoints.length < keptCheckpoints ? 0 : this.#checkpoints[0]!.position;
    let count = 0;
    for (const { status, bytes } of this.#journal) {
      const isNeeded = this.#base + count >= needed && this.#bytes <= this.#options.maxReplayBytes;
      if (status === "pending" || isNeeded) break;
      this.#bytes -= bytes;
      count++;
    }
    if (count === 0) return;
    this.#journal.splice(0, count);
    this.#base += count;
    const before = this.#checkpoints.length;
    this.#checkpoints = this.#checkpoints.filter(({ position }) => position >= this.#base);
    if (this.#checkpoints.length === 0 && (before > 0 || this.#base === count)) {
      const limit = `${this.#options.maxReplayBytes} bytes of training data were sent since its last checkpoint`;
      this.#reporter.log("warn", `${this.#requests.modelId} cannot be recovered until it is saved: ${limit}.`);
    }
  }

  #begin(reason: ModelLoss, error: unknown): void {
    this.#recovering = this.#recover(reason, error);
    this.#recovering.catch(() => {});
  }

  async #recover(reason: ModelLoss, error: unknown): Promise<void> {
    const { modelId } = this.#requests;
    const { maxAttempts, backoffMs } = this.#options;
    this.#generation++;
    for (const { status, stop } of this.#journal) if (status === "pending") stop.abort(superseded);
    let last = error;
    this.#report("lost", modelId, `${modelId} is lost (${reason}): ${textOf(error)}`);
    while (this.#attempts < maxAttempts) {
      const attempt = ++this.#attempts;
      try {
        if (attempt > 1) {
          const delayMs = Math.min(backoffMs * 2 ** (attempt - 2), longestBackoffMs);
          this.#report(
            "waiting",
            modelId,
            `attempt ${attempt} of ${maxAttempts} to recover ${modelId} in ${delayMs} ms`,
          );
          await this.#requests.session.transport.sleep(delayMs);
        }
        const { requests, path, position } = await this.#newest();
        this.#requests = requests;
        this.#onReplace(requests);
        this.#checkedAtMs = this.#clock.monotonic();
        this.#recovering = undefined; // from here on, new calls follow the repeated ones
        const repeated = this.#replay(position);
        const from = path ?? "its beginning";
        this.#report(
          "recovered",
          requests.modelId,
          `${modelId} continues as ${requests.modelId} from ${from}, ${repeated} calls repeated`,
        );
        return;
      } catch (failure) {
        last = failure;
        if (failure instanceof TinkerError && (failure.code === "closed" || failure.code === "no_checkpoint")) break;
      }
    }
    this.#failed = new TinkerError(`${modelId} is lost (${reason}) and was not recovered: ${textOf(last)}`, {
      code: "recovery_failed",
      hint: "Create a training client from a checkpoint when the server has recovered.",
      cause: error,
    });
    this.#recovering = undefined;
    this.#report("failed", modelId, this.#failed.message);
    throw this.#failed;
  }

  /** The model again, from the newest checkpoint that exists, after which all calls are known and before which none is without a result. */
  async #newest(): Promise<{ requests: ModelRequests; path: string | undefined; position: number }> {
    const origin = this.#base === 0 ? [{ path: undefined, position: 0 }] : [];
    const open = this.#journal.findIndex(({ status }) => status === "pending");
    const latest = open === -1 ? Infinity : this.#base + open;
    for (const { path, position } of [...this.#checkpoints.toReversed(), ...origin]) {
      if (position > latest) continue;
      try {
        return { requests: await this.#recreate(path), path, position };
      } catch (error) {
        const isGone = path !== undefined && /checkpoint|weights/i.test(textOf(error)) && isMissing(error);
        if (!isGone) throw error;
        this.#report("waiting", this.#requests.modelId, `the checkpoint ${path} is gone; the one before it is tried`);
      }
    }
    const problem = "there is no checkpoint from which all later calls are known";
    throw new TinkerError(problem, {
      code: "no_checkpoint",
      hint: "Save more often, or raise recovery.maxReplayBytes.",
    });
  }

  /** Starts again what the checkpoint lacks, in order. */
  #replay(position: number): number {
    const generation = this.#generation;
    const repeated: Promise<unknown>[] = [];
    for (const entry of this.#journal.slice(position - this.#base)) {
      if (entry.status === "pending") {
        this.#start(entry);
        continue;
      }
      if (entry.status === "dropped" || entry.kind !== "train") continue;
      const state = new FutureState(entry.state.requestType, entry.state.subject);
      const attempt = entry.call(this.#requests, state, new AbortController().signal);
      repeated.push(
        attempt.catch(async (error: unknown) => {
          const reason = await this.#reasonOf(error);
          if (this.#generation !== generation || this.#recovering !== undefined) return;
          // Without this call the weights would be others: the model counts as lost for any reason.
          this.#begin(reason ?? "corrupted", error);
        }),
      );
    }
    this.#repeated = Promise.all(repeated);
    return repeated.length;
  }

  #report(stage: "lost" | "waiting" | "recovered" | "failed", modelId: string, message: string): void {
    this.#reporter.report({ type: "recovery", stage, modelId, attempt: this.#attempts, message });
  }
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Whether the server says that it does not have what was asked for. */
function isMissing(error: unknown): boolean {
  const { status } = error as { readonly status?: number };
  if (status !== undefined) return status === 404 || status === 410;
  return /not found|no such|there is no|expired|deleted|unknown/i.test(textOf(error));
}
