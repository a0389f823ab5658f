/**
 * Recovery of a run: when the server has lost the model, the run goes back to its newest checkpoint that still exists and takes the later
 * steps again. The loop still has the data, so a deterministic run ends with the weights of an undisturbed one. Each break is a line of
 * `recoveries.jsonl`. docs/decisions/0024-recovery.md has the reasons.
 */
import { type Clock, InvalidInputError, systemClock, TinkerError } from "@tinklet/sdk";
import { diagnosed, type ModelLoss, ModelLostError } from "@tinklet/sdk/recovery";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { Service, Trainer } from "../clients.ts";

/** Options of the recovery of runs. */
export interface RunRecoveryOptions {
  /** Attempts without a newly finished step in between, after which the run fails. @defaultValue 5 */
  readonly maxAttempts?: number;
  /** Wait before the second attempt, in milliseconds; doubled for each further attempt, up to a minute. @defaultValue 1000 */
  readonly backoffMs?: number;
  /** Interval of asking the server whether the model is corrupted, in milliseconds; it is also asked at each checkpoint. @defaultValue 60000 */
  readonly checkEveryMs?: number;
  /** For tests. @defaultValue the system clock */
  readonly clock?: Clock;
}

/** Event: the model of the run is lost, or the run has recovered. */
export interface RunRecovers {
  readonly type: "recovery";
  /** `lost`: the run goes back to a checkpoint after `delayMs`. `recovered`: it trains again. */
  readonly stage: "lost" | "recovered";
  readonly reason: ModelLoss;
  readonly message: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly delayMs: number;
}

/** A line of `recoveries.jsonl`. */
export interface RecoveryRow {
  /** The step that the run went back to. */
  readonly step: number;
  /** Steps that had been recorded and were taken again. */
  readonly repeated_steps: number;
  readonly reason: ModelLoss;
  readonly message: string;
  readonly attempt: number;
  /** Name of the checkpoint; null: the beginning. */
  readonly checkpoint: string | null;
  /** Names of newer checkpoints that the server no longer had. */
  readonly gone: readonly string[];
  readonly lost_model: string | null;
}

const names: OptionNames<RunRecoveryOptions> = { maxAttempts: true, backoffMs: true, checkEveryMs: true, clock: true };
const longestBackoffMs = 60_000;

/** Decides whether a run recovers, and when. One for each call of a run function. */
export class RunRecovery {
  readonly clock: Clock;
  readonly maxAttempts: number;
  readonly #backoffMs: number;
  readonly #checkEveryMs: number;
  readonly #service: Service;
  #attempts = 0;
  /** The most steps that were finished so far: a step beyond them is progress. */
  #furthest = 0;
  #checkedAtMs: number;

  /** @throws InvalidInputError naming the option. */
  constructor(service: Service, options: RunRecoveryOptions) {
    checkOptions("recovery", options, names, "recovery");
    const { maxAttempts = 5, backoffMs = 1_000, checkEveryMs = 60_000 } = options;
    for (const [name, value, least] of [
      ["maxAttempts", maxAttempts, 1],
      ["backoffMs", backoffMs, 0],
      ["checkEveryMs", checkEveryMs, 0],
    ] as const)
      if (!Number.isSafeInteger(value) || value < least)
        throw new InvalidInputError(`recovery.${name}`, `must be an integer from ${least}, got ${String(value)}`);
    this.clock = options.clock ?? systemClock({ ref: true });
    this.maxAttempts = maxAttempts;
    this.#backoffMs = backoffMs;
    this.#checkEveryMs = checkEveryMs;
    this.#service = service;
    this.#checkedAtMs = this.clock.monotonic();
  }

  get attempts(): number {
    return this.#attempts;
  }

  get isExhausted(): boolean {
    return this.#attempts >= this.maxAttempts;
  }

  /** The trainer, whose saves fail if the model turns out to be corrupted: no checkpoint of it is recorded. */
  checked(trainer: Trainer): Trainer {
    return new Proxy(trainer, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (name !== "saveState" && name !== "saveWeightsForSampler") return value.bind(target);
        return async (...call: unknown[]) => {
          const saved: unknown = await value.apply(target, call);
          await this.#check(target, true);
          return saved;
        };
      },
    });
  }

  /** Passes on the events of a loop; notes its finished steps, and asks about the model now and then. */
  async *observed<E extends { readonly type: string }, R>(
    loop: AsyncGenerator<E, R, void>,
    trainer: Trainer,
  ): AsyncGenerator<E, R, void> {
    try {
      for (;;) {
        const { done, value } = await loop.next();
        if (done) return value;
        yield value;
        if (value.type !== "step") continue;
        const { step } = value as unknown as { readonly step: number };
        if (step >= this.#furthest) {
          this.#furthest = step + 1;
          this.#attempts = 0;
        }
        await this.#check(trainer, false);
      }
    } finally {
      await loop.return(undefined as never); // no effect on a finished one
    }
  }

  /**
   * Asks the server whether the model is corrupted.
   *
   * @param isDue - false: only if the interval has passed
   * @throws ModelLostError if it is.
   */
  async #check(trainer: Trainer, isDue: boolean): Promise<void> {
    const { modelId } = trainer;
    const now = this.clock.monotonic();
    if (modelId === undefined || !(isDue || now - this.#checkedAtMs >= this.#checkEveryMs)) return;
    this.#checkedAtMs = now;
    const run = await this.#record(modelId).catch(() => undefined); // without an answer nothing is known
    if (run?.corrupted) throw new ModelLostError(modelId, "corrupted");
  }

  /** Why the model is lost after a failure; undefined where it is not. */
  async reasonOf(error: unknown, trainer: Trainer | undefined): Promise<ModelLoss | undefined> {
    return diagnosed(error, () => this.#record(trainer?.modelId));
  }

  /** Counts an attempt. @returns how long to wait before it, in milliseconds */
  next(): number {
    this.#attempts++;
    return this.#attempts === 1 ? 0 : Math.min(this.#backoffMs * 2 ** (this.#attempts - 2), longestBackoffMs);
  }

  async #record(modelId: string | undefined): Promise<{ readonly corrupted: boolean }> {
    const rest = this.#service.createRestClient?.();
    if (modelId === undefined || rest?.getTrainingRun === undefined)
      throw new TinkerError("The server cannot be asked.", { code: "unknown" });
    return rest.getTrainingRun(modelId);
  }
}
