/**
 * One model in training: runs its requests in the order of `seq_id`, and stores its state after every change of its weights. The stored
 * state and the engine's state agree after every request; a change that cannot be stored is undone in the engine.
 */
import type { AdamParams, AdapterId, AdapterState } from "@tinklet/engine";
import { Refusal, SeqOrder } from "@tinklet/server/portable";
import type { Clock } from "@tinklet/wire/clock";
import { type EngineHost, isEngineEnd, type Opened } from "./engine-host.ts";
import type { Outcome, Requests } from "./requests.ts";
import { type BrowserStorage, type RunRecord, runStateKey, stateBytes } from "./storage/storage.ts";

/** Time after which a missing `seq_id` is skipped. */
const gapMs = 330_000;

interface Job {
  readonly number: number;
  readonly seq: number | undefined;
  readonly run: () => Promise<Outcome>;
}

/** A request with a number. */
export interface Submission {
  /** What the request is, to tell a retry from another request with the same number. */
  readonly digest: string;
  readonly number: number;
}

export interface TrainingModelOptions {
  readonly record: RunRecord;
  readonly sessionId: string;
  readonly host: EngineHost;
  readonly storage: BrowserStorage;
  readonly requests: Requests;
  readonly clock: Clock;
}

export class TrainingModel {
  readonly sessionId: string;
  readonly #options: TrainingModelOptions;
  /** The creation of the model has number 0. */
  readonly #order = new SeqOrder<Job>(0);
  readonly #submissions = new Map<number, Submission>();
  #record: RunRecord;
  /** The adapter in the engine that was open then. */
  #live: { readonly opened: Opened; readonly adapter: AdapterId } | undefined;
  /** Backward passes since the last change of the weights. */
  #passes = 0;
  /** Passes that were lost with a worker; the next step reports them. */
  #lostPasses = 0;
  #isRunning = false;
  #isUnloaded = false;
  #stopGap = (): void => {};

  constructor(options: TrainingModelOptions) {
    this.#options = options;
    this.#record = options.record;
    this.sessionId = options.sessionId;
  }

  /** Whether a request runs or waits. */
  get isBusy(): boolean {
    return this.#isRunning || this.#order.size > 0;
  }

  get record(): RunRecord {
    return this.#record;
  }

  /** Accepts a request; returns its number, which a retry of the request shares. @throws {@link Refusal} 422 */
  submit(seq: number | undefined, digest: string, run: () => Promise<Outcome>): number {
    const { requests } = this.#options;
    const known = seq === undefined ? undefined : this.#submissions.get(seq);
    if (known !== undefined) {
      if (known.digest === digest) return known.number;
      throw new Refusal(422, "number_reused", `seq_id ${seq} of ${this.#record.id} was used for another request.`);
    }
    const number = requests.accept(this.sessionId);
    if (seq !== undefined) this.#submissions.set(seq, { digest, number });
    this.#order.add({ number, seq, run });
    void this.#work();
    return number;
  }

  /** A refused request uses up its number, so that later requests do not wait for it. */
  skip(seq: number | undefined): void {
    if (seq === undefined || this.#submissions.has(seq)) return;
    this.#order.consume(seq);
    void this.#work();
  }

  async #work(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#stopGap();
    for (let job = this.#order.take(); job !== undefined; job = this.#order.take()) {
      const { number, run } = job;
      await this.#options.requests.run(number, async () => {
        if (this.#isUnloaded) {
          throw new Refusal(
            400,
            "unloaded",
            `The model ${this.#record.id} was unloaded. Create a model from a checkpoint.`,
          );
        }
        return run();
      });
    }
    this.#isRunning = false;
    if (this.#order.missing === undefined) return;
    this.#stopGap = this.#options.clock.timer(gapMs, () => {
      this.#order.skipMissing();
      void this.#work();
    });
  }

  /** Creates the adapter and stores the run. */
  async create(): Promise<void> {
    const opened = await this.#options.host.opened();
    const { adapterId } = await opened.engine.createAdapter(this.#record.lora);
    this.#live = { opened, adapter: adapterId };
    try {
      await this.#store(await opened.engine.exportState(adapterId, { optimizer: true }));
    } catch (error) {
      this.#live = undefined;
      await opened.engine.deleteAdapter(adapterId).catch(() => {});
      throw error;
    }
  }

  /** The adapter in the engine; after the end of a worker, loaded from the storage into another one. */
  async #adapter(): Promise<{ readonly opened: Opened; readonly adapter: AdapterId }> {
    const opened = await this.#options.host.opened();
    if (this.#live?.opened === opened) return this.#live;
    this.#lostPasses += this.#passes;
    this.#passes = 0;
    const { adapterId } = await opened.engine.importState(await this.#storedState());
    this.#live = { opened, adapter: adapterId };
    return this.#live;
  }

  async #storedState(): Promise<AdapterState> {
    const state = await this.#options.storage.state(runStateKey(this.#record.id));
    if (state !== undefined) return state;
    throw new Refusal(404, "unknown_model", `The run ${this.#record.id} was deleted.`);
  }

  /** Calls the engine with the adapter, and notices the end of the engine. */
  async call<T>(work: (engine: Opened["engine"], adapter: AdapterId) => Promise<T>): Promise<T> {
    const { opened, adapter } = await this.#adapter();
    try {
      return await work(opened.engine, adapter);
    } catch (error) {
      if (isEngineEnd(error)) await this.#options.host.lost(opened);
      throw error;
    }
  }

  /** A backward pass; its gradient is kept until the next step. */
  async backward<T>(work: (engine: Opened["engine"], adapter: AdapterId) => Promise<T>): Promise<T> {
    await this.#adapter(); // counts what an earlier worker has lost before this pass is counted
    this.#passes++;
    try {
      return await this.call(work);
    } catch (error) {
      if (!isEngineEnd(error)) this.#passes--; // nothing was added to the gradient
      throw error;
    }
  }

  /** Takes a step and stores its result. If that fails, the weights are those from before the step. */
  async step(params: AdamParams): Promise<Readonly<Record<string, number>>> {
    await this.#adapter();
    if (this.#lostPasses > 0) {
      const lost = this.#lostPasses;
      this.#lostPasses = 0;
      await this.#restore(); // a step with the rest of the gradient would be another step than the one asked for
      const message = `The engine's worker ended with the gradients of ${lost} passes since step ${this.#record.step}. Send the passes of this step again; the weights are unchanged.`;
      throw new Refusal(503, "gradient_lost", message);
    }
    return this.#change(async (engine, adapter) => (await engine.optimStep(adapter, params)).metrics);
  }

  /** Replaces the weights by a stored state. */
  async load(state: AdapterState): Promise<void> {
    await this.#change(async (engine, adapter) => {
      await engine.loadState(adapter, state);
      this.#lostPasses = 0; // loading clears the gradient
    });
  }

  /** Changes the weights and stores them. If they cannot be stored, the engine gets the stored weights back. */
  async #change<T>(work: (engine: Opened["engine"], adapter: AdapterId) => Promise<T>): Promise<T> {
    let isChanged = false;
    try {
      return await this.call(async (engine, adapter) => {
        const result = await work(engine, adapter);
        isChanged = true;
        await this.#store(await engine.exportState(adapter, { optimizer: true }));
        this.#passes = 0;
        return result;
      });
    } catch (error) {
      if (isEngineEnd(error))
        this.#passes = 0; // the failure of this request reports the lost gradient
      else if (isChanged) await this.#restore();
      throw error;
    }
  }

  /** Makes the engine's state that of the storage, and clears the gradient. */
  async #restore(): Promise<void> {
    this.#passes = 0;
    try {
      const stored = await this.#storedState();
      await this.call((engine, adapter) => engine.loadState(adapter, stored));
    } catch {
      // The adapter in the engine is not what is stored. Without it, the next request loads the stored one.
      const live = this.#live;
      this.#live = undefined;
      await live?.opened.engine.deleteAdapter(live.adapter).catch(() => {});
    }
  }

  async #store(state: AdapterState): Promise<void> {
    const { storage, clock } = this.#options;
    const record: RunRecord = {
      ...this.#record,
      step: state.step,
      bytes: stateBytes(state),
      updatedAt: clock.now(),
    };
    await storage.commit({ runs: [record], states: new Map([[runStateKey(record.id), state]]) });
    this.#record = record;
  }

  /** Frees the adapter's memory. The run stays in the storage. */
  async unload(): Promise<void> {
    this.#isUnloaded = true;
    this.#stopGap();
    const live = this.#live;
    this.#live = undefined;
    await live?.opened.engine.deleteAdapter(live.adapter).catch(() => {}); // its worker may have ended
  }
}
