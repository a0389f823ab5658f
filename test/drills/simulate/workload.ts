/** What the clients of a simulation do: training, sampling, listing, and attempts at what belongs to another tenant. */
import {
  APIFuture,
  type ClientOptions,
  type CustomLoss,
  type RetryConfig,
  type SampleOptions,
  SamplingClient,
  ServiceClient,
  TensorData,
  type TrainingClient,
} from "@tinklet/sdk";
import {
  APIConnectionError,
  InvalidInputError,
  RateLimitError,
  RequestFailedError,
  TinkerError,
} from "@tinklet/wire/errors";
import { type Example, sampledTokens } from "./arithmetic.ts";
import { chat } from "./chat.ts";
import { baseWeights, contextLength, vocabularySize } from "./engine.ts";
import { baseModel, baseUrl, keyOf } from "./host.ts";
import { nameInUse, samplingMistakes, trainingMistakes } from "./mistakes.ts";
import type { Network } from "./network.ts";
import type { Call, Operation, Sample } from "./oracle.ts";
import { Random } from "./random.ts";
import { rawClient } from "./raw-client.ts";
import { newOwner, type Owner, type Scheduler } from "./scheduler.ts";

/** A seed has at least so many calls. */
export const fewestCalls = 50;

/** A model as the workload knows it. */
export interface TrackedModel {
  readonly client: string;
  readonly tenant: string;
  readonly seed: number;
  readonly calls: Call[];
  readonly samples: Sample[];
  /** The checkpoint that the model was created from. */
  readonly from?: { readonly model: TrackedModel; readonly name: string; readonly optimizer: boolean };
  modelId: string | undefined;
}

/** A checkpoint of a model. */
interface Saved {
  readonly path: string;
  /** Virtual time before which it has not expired, where the server's clock is steady. */
  readonly livesUntil: number;
  /** Virtual time by which it has certainly expired, where the server's clock is steady. */
  readonly endsBy: number;
}

/** One call of the SDK. */
export interface CallRecord {
  readonly client: string;
  readonly what: string;
  readonly startedAt: number;
  endedAt: number | undefined;
}

export interface WorkloadOptions {
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly seed: number;
  readonly tenants: readonly string[];
  readonly chunkLength: number;
  /** Virtual time from which nothing goes wrong any more. */
  readonly healthyFromMs: number;
  readonly problem: (text: string) => void;
  readonly isOldServer: boolean;
  /** Whether many samples ask for many sequences. */
  readonly isCrowded: boolean;
  /** Whether the model has one, which chats need. */
  readonly hasTokenizer: boolean;
  /** A second base model, which the server may not have at some times. */
  readonly otherModel: string | undefined;
  /** Whether the server's clock was never set. */
  readonly clockIsSteady: () => boolean;
}

/** The reason that the workload gives when it cancels a call itself. */
class Cancelled extends Error {
  override readonly name = "Cancelled";
}

/** What every tenant left for the others to try at. */
interface Target {
  readonly tenant: string;
  readonly modelId: string;
  readonly samplingSessionId: string | undefined;
  readonly path: string | undefined;
  readonly requestId: string | undefined;
}

/** Settings that users choose; most keep the defaults. */
const retryConfigs: readonly RetryConfig[] = [
  {},
  {},
  {},
  { maxConnections: 2 },
  { maxConnections: 1, progressTimeoutMs: 20_000 },
  { progressTimeoutMs: 8_000 },
  { enableRetryLogic: false },
  { enableStuckDetection: false, retryDelayBaseMs: 50 },
];

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** A client process: an SDK of its own. */
class ClientProcess {
  readonly owner: Owner;
  readonly tenant: string;
  readonly service: ServiceClient;
  readonly options: ClientOptions;
  readonly random: Random;
  readonly work: Workload;
  /** Whether its user has closed it, amid its calls. */
  isClosed = false;

  constructor(work: Workload, tenant: string, name: string) {
    const { scheduler, network, seed } = work.options;
    this.work = work;
    this.tenant = tenant;
    this.owner = newOwner(name);
    this.random = new Random(seed, name);
    this.options = {
      apiKey: keyOf(tenant),
      baseUrl,
      fetch: network.fetchOf(this.owner),
      clock: scheduler.clock(this.owner),
      logger: silent,
      telemetry: this.random.chance(0.3),
      ...(this.random.chance(0.3) ? { maxRetries: this.random.pick([0, 1, 3]) } : {}),
    };
    this.service = new ServiceClient({ ...this.options, retryConfig: this.random.pick(retryConfigs) });
  }

  sleep(ms: number): Promise<void> {
    return this.work.options.scheduler.clock(this.owner).sleep(ms);
  }

  /** Runs one call of the SDK and judges how it ended. @returns its value; `undefined` when it failed in a way that is allowed */
  async call<T>(
    what: string,
    run: (signal: AbortSignal) => PromiseLike<T>,
    options: { mayCancel?: boolean; required?: boolean; mayFail?: boolean } = {},
  ): Promise<T | undefined> {
    const { scheduler, problem } = this.work.options;
    const record: CallRecord = { client: this.owner.name, what, startedAt: scheduler.now, endedAt: undefined };
    this.work.records.push(record);
    const stop = new AbortController();
    if (options.mayCancel !== false && this.random.chance(this.work.cancelRate * 0.1)) {
      stop.abort(new Cancelled("before the call"));
    } else if (options.mayCancel !== false && this.random.chance(this.work.cancelRate)) {
      scheduler.after(this.owner, this.random.fraction() * 3000, `cancel ${what}`, () => {
        stop.abort(new Cancelled("by the workload"));
      });
    }
    try {
      const value = await this.#awaited(() => run(stop.signal), stop, options.required === true);
      scheduler.note(`${this.owner.name} ${what} done`);
      return value;
    } catch (error) {
      scheduler.note(`${this.owner.name} ${what} failed: ${String(error).slice(0, 300)}`);
      const { aborted, reason } = stop.signal;
      if (aborted && (error === reason || (error as Error)?.name === (reason as Error).name)) return undefined;
      if (!(error instanceof TinkerError))
        problem(`${this.owner.name} ${what}: ended with ${(error as Error)?.stack ?? String(error)}`);
      else if (options.required === true && !this.isClosed)
        problem(`${this.owner.name} ${what}: must succeed on a healthy server, and failed: ${error.message}`);
      else if (/its log says why/.test(error.message) && this.work.mayFailInside === false) {
        problem(`${this.owner.name} ${what}: an internal error: ${error.message}`);
      } else if (error instanceof InvalidInputError && options.mayFail !== true) {
        problem(`${this.owner.name} ${what}: a right call was refused by the client: ${error.message}`);
      } else if (
        error instanceof RequestFailedError &&
        options.mayFail !== true &&
        !this.isClosed &&
        !this.work.mayFailInside
      ) {
        const isExplained = explained.some((pattern) => pattern.test(error.message));
        if (!isExplained) problem(`${this.owner.name} ${what}: an accepted request failed: ${error.message}`);
      }
      return undefined;
    } finally {
      record.endedAt = scheduler.now;
    }
  }

  /**
   * Repeats a call that the server refuses because its queue is full of calls that were made before, and a sample that the client's own
   * stuck detection ended.
   */
  async #admitted<T>(run: () => PromiseLike<T>): Promise<T> {
    for (let refusals = 0; ; refusals++) {
      try {
        return await run();
      } catch (error) {
        const isStuck = error instanceof APIConnectionError && error.code === "stuck";
        if (!(error instanceof RateLimitError || isStuck) || refusals >= mostRefusals) throw error;
        await this.sleep(5_000);
      }
    }
  }

  /** Awaits a call in one of the ways that an {@link APIFuture} offers. */
  async #awaited<T>(run: () => PromiseLike<T>, stop: AbortController, required: boolean): Promise<T> {
    if (required) return this.#admitted(run);
    const started = run();
    if (!(started instanceof APIFuture) || !this.random.chance(0.25)) return started;
    const future: APIFuture<T> = started;
    const { scheduler, problem } = this.work.options;
    const inMs = this.random.fraction() * 4000;
    switch (this.random.below(8)) {
      case 0:
        await future.submitted.catch(() => {});
        break;
      case 1:
        scheduler.after(this.owner, inMs, "explain", () => {
          if (future.explain().text === "") problem(`${this.owner.name}: a call has no explanation`);
        });
        break;
      case 2:
        await future.result({ timeoutMs: inMs }).catch(() => {}); // the call itself goes on
        break;
      case 3: {
        const left = new AbortController();
        scheduler.after(this.owner, inMs, "stop waiting", () => left.abort(new Cancelled("waits no longer")));
        await future.result({ signal: left.signal }).catch(() => {});
        break;
      }
      case 4:
        if (this.work.cancelRate === 0) break;
        scheduler.after(this.owner, inMs, "cancel", () => {
          const reason = new Cancelled("the future");
          stop.abort(reason);
          future.cancel(reason);
        });
        break;
      case 5:
        await future.result({ signal: AbortSignal.abort(new Cancelled("waits no longer")) }).catch(() => {});
        return future.result();
      case 6:
        if (this.work.cancelRate === 0) break;
        scheduler.after(this.owner, inMs, "cancel without a reason", () => {
          stop.abort(); // the reason is compared by its name
          future.cancel();
        });
        break;
      default:
        await this.sleep(inMs); // a failure before that is logged as not awaited
    }
    return future;
  }
}

/** More than all settings of a seed's clock together. */
const mostSetMs = 3_600_000;

/** Why an accepted request may fail although it was right. */
const explained: readonly RegExp[] = [
  /crashed or was killed \d+ times/,
  /arrived too late/, // in an outage that was longer than the server waits for a number
  /could not be created/, // after the creation failed for one of these reasons
];

/** How often a call that must succeed is made again while the queue is full of earlier calls. */
const mostRefusals = 200;

export class Workload {
  readonly options: WorkloadOptions;
  readonly records: CallRecord[] = [];
  readonly models: TrackedModel[] = [];
  readonly processes: ClientProcess[] = [];
  readonly targets: Target[] = [];
  readonly cancelRate: number;
  /** Whether the server may fail at a request through a fault of the simulation: a disk that fails, an engine that dies again and again. */
  mayFailInside = false;
  #running = 0;

  constructor(options: WorkloadOptions) {
    this.options = options;
    this.cancelRate = new Random(options.seed, "cancel").pick([0, 0.05, 0.15]);
  }

  /** Time from which every call must succeed: a server that crashed last of all is back. */
  get steadyFromMs(): number {
    return this.options.healthyFromMs + 15_000;
  }

  /** Whether every program of a living client has ended. */
  get isOver(): boolean {
    return this.#running === 0;
  }

  get livingProcesses(): readonly ClientProcess[] {
    return this.processes.filter(({ owner }) => owner.alive);
  }

  start(): void {
    const random = new Random(this.options.seed, "workload");
    for (const [index, tenant] of this.options.tenants.entries()) {
      this.#run(new ClientProcess(this, tenant, `trainer-${tenant}`), (client) => this.#train(client));
      this.#run(new ClientProcess(this, tenant, `sampler-${tenant}`), (client) => this.#sample(client));
      if (index === 0 || random.chance(0.3))
        this.#run(new ClientProcess(this, tenant, `other-${tenant}`), (client) => this.#pry(client));
      if (random.chance(this.options.otherModel === undefined ? 0.15 : 0.6))
        this.#run(new ClientProcess(this, tenant, `raw-${tenant}`), (client) =>
          rawClient({
            tenant,
            service: client.service,
            clock: this.options.scheduler.clock(client.owner),
            random: client.random,
            fetch: this.options.network.fetchOf(client.owner),
            otherModel: this.options.otherModel,
            ownPaths: () =>
              this.targets.flatMap((target) =>
                target.tenant === tenant && target.path !== undefined ? [target.path] : [],
              ),
            record: (what, run) => client.call(what, run, { mayFail: true }),
          }),
        );
      if (random.chance(this.options.hasTokenizer ? 0.4 : 0.03))
        this.#run(new ClientProcess(this, tenant, `chat-${tenant}`), (client) =>
          chat({
            clock: this.options.scheduler.clock(client.owner),
            name: client.owner.name,
            tenant,
            random: client.random,
            fetch: this.options.network.fetchOf(client.owner),
            problem: this.options.problem,
            samplerPaths: () => this.targets.filter(({ path }) => path !== undefined) as never,
            record: (what, run) => client.call(what, run, { mayFail: true }),
          }),
        );
    }
    if (random.chance(0.1)) {
      const leaver = random.pick(this.processes);
      const atMs = random.fraction() * this.options.healthyFromMs;
      this.options.scheduler.after(newOwner("fate"), atMs, `${leaver.owner.name} is closed`, () => this.#close(leaver));
    }
    if (random.chance(0.25)) {
      const victim = random.pick(this.processes);
      this.options.scheduler.after(
        newOwner("fate"),
        random.fraction() * this.options.healthyFromMs,
        `${victim.owner.name} dies`,
        () => this.#kill(victim),
      );
    }
  }

  #close(client: ClientProcess): void {
    if (!client.owner.alive || this.#ended.has(client.owner)) return;
    client.isClosed = true;
    client.service.close("errored").catch((error: unknown) => {
      this.options.problem(`${client.owner.name}'s close amid its calls failed: ${String(error)}`);
    });
  }

  #kill({ owner }: ClientProcess): void {
    if (!owner.alive || this.#ended.has(owner)) return;
    owner.alive = false;
    this.#running--;
  }

  readonly #ended = new Set<Owner>();

  #run(client: ClientProcess, program: (client: ClientProcess) => Promise<void>): void {
    this.processes.push(client);
    this.#running++;
    const end = () => {
      if (!client.owner.alive) return;
      this.#ended.add(client.owner);
      this.#running--;
    };
    program(client).then(end, (error: unknown) => {
      this.options.problem(`${client.owner.name}: the program ended with ${(error as Error)?.stack ?? String(error)}`);
      end();
    });
  }

  #example(random: Random): Example {
    const length = random.between(1, 6);
    const tokens = Array.from({ length }, () => random.below(vocabularySize));
    return { tokens, targets: tokens.map(() => random.below(vocabularySize)) };
  }

  async #train(client: ClientProcess): Promise<void> {
    const { random, service } = client;
    const model: TrackedModel = {
      client: client.owner.name,
      tenant: client.tenant,
      seed: random.below(1000),
      calls: [],
      samples: [],
      modelId: undefined,
    };
    let trainer: TrainingClient | undefined;
    for (let attempt = 0; trainer === undefined; attempt++) {
      const isHealthy = this.options.scheduler.now > this.steadyFromMs;
      trainer = await client.call(
        "createModel",
        (signal) =>
          service.createLoraTrainingClient({ baseModel, rank: random.between(1, 4), seed: model.seed, signal }),
        { mayCancel: attempt === 0, required: isHealthy },
      );
      if (trainer === undefined) {
        if (isHealthy || client.isClosed) return;
        await client.sleep(1000 + random.below(20_000));
      }
    }
    model.modelId = trainer.modelId;
    this.models.push(model);
    this.targets.push({
      tenant: client.tenant,
      modelId: trainer.modelId,
      samplingSessionId: undefined,
      path: undefined,
      requestId: undefined,
    });
    const paths = new Map<string, Saved>();
    let loss: CustomLoss | undefined;
    let pending: Promise<unknown>[] = [];
    const steps = random.between(9, 15);
    for (let at = 0; at < steps; at++) {
      const kind = random.below(112);
      if (kind >= 108) pending.push(this.#fork(client, model, paths));
      else if (kind >= 104) pending.push(this.#delete(client, paths));
      else if (kind >= 100) pending.push(this.#err(client, trainer, paths));
      else if (kind < 34) pending.push(this.#pass(client, trainer, model, true));
      else if (kind < 44) pending.push(this.#pass(client, trainer, model, false));
      else if (kind < 62) pending.push(this.#optimize(client, trainer, model));
      else if (kind < 70) pending.push(this.#step(client, trainer, model));
      else if (kind < 78) pending.push(this.#save(client, trainer, model, `s${random.below(4)}-${at}`, paths));
      else if (kind < 84 && paths.size > 0) pending.push(this.#load(client, trainer, model, paths));
      else if (kind < 90) pending.push(this.#sampleModel(client, trainer, model));
      else if (kind < 92) pending.push(this.#export(client, trainer, model, `e${at}`));
      else {
        loss ??= await client.call("createCustomLoss", (signal) =>
          service.createCustomLoss(
            ({ logprobs }) => ({
              loss: logprobs.sum().neg(),
              metrics: { "custom/own:mean": logprobs.mean(), "custom/own:sum": logprobs.sum() },
            }),
            { logprobs: 1 },
            { signal },
          ),
        );
        if (loss !== undefined) pending.push(this.#custom(client, trainer, model, loss));
      }
      const areFirstDone = model.calls.length > 3 && model.calls.slice(0, 3).every(({ outcome }) => outcome === "done");
      if (areFirstDone && random.chance(0.15)) pending.push(this.#reuse(client, trainer));
      if (random.chance(0.4)) {
        await Promise.all(pending);
        pending = [];
      }
      if (random.chance(0.3)) await client.sleep(random.fraction() * 8000);
    }
    await Promise.all(pending);
    const leftMs = this.steadyFromMs - this.options.scheduler.now;
    if (leftMs > 0) await client.sleep(leftMs + random.below(5000));
    await this.#optimize(client, trainer, model, true);
    await this.#pass(client, trainer, model, false, true);
    for (let deletions = random.below(3); deletions > 0; deletions--) await this.#delete(client, paths);
    if (random.chance(0.2)) await client.call("unload", (signal) => trainer.unload({ signal }));
  }

  /** Sends another request under a number that is used: it must not get a result. */
  async #reuse(client: ClientProcess, trainer: TrainingClient): Promise<void> {
    const { service, random } = client;
    const seqId = random.between(1, 3);
    const adamParams = { learningRate: 0.9, beta1: 0.9, beta2: 0.95, eps: 1e-12, weightDecay: 0, gradClipNorm: 0 };
    const result = await client.call(`reuse of seq_id ${seqId}`, async (signal) => {
      const { requestId } = await service.api.optimStep({ modelId: trainer.modelId, seqId, adamParams }, { signal });
      return service.future(requestId, "OptimStep", { signal });
    });
    if (result !== undefined)
      this.options.problem(
        `${client.owner.name}: a second request under seq_id ${seqId} was answered ${JSON.stringify(result)}`,
      );
  }

  /** Notes a call before it is made: the order of the calls is the order of their effects. */
  async #tracked<T>(
    client: ClientProcess,
    model: TrackedModel,
    operation: Operation,
    what: string,
    run: (signal: AbortSignal) => PromiseLike<T>,
    options: { required?: boolean; mayFail?: boolean; seen?: (value: T) => void } = {},
  ): Promise<T | undefined> {
    const call: Call = { operation, outcome: "unknown" };
    model.calls.push(call);
    const required = options.required === true;
    const value = await client.call(what, run, { required, mayCancel: !required, mayFail: options.mayFail === true });
    if (value === undefined) return undefined;
    call.outcome = "done";
    options.seen?.(value);
    return value;
  }

  #batch(random: Random, most = 4): Example[] {
    return Array.from({ length: random.between(1, most) }, () => this.#example(random));
  }

  #operation(examples: readonly Example[], backward: boolean): Extract<Operation, { kind: "pass" }> {
    const { chunkLength } = this.options;
    const chunks = Array.from({ length: Math.ceil(examples.length / chunkLength) }, (_, i) =>
      examples.slice(i * chunkLength, (i + 1) * chunkLength),
    );
    return { kind: "pass", backward, chunks };
  }

  async #pass(
    client: ClientProcess,
    trainer: TrainingClient,
    model: TrackedModel,
    backward: boolean,
    required = false,
  ): Promise<void> {
    const examples = this.#batch(client.random);
    const operation = this.#operation(examples, backward);
    await this.#tracked(
      client,
      model,
      operation,
      backward ? "forwardBackward" : "forward",
      (signal) => trainer[backward ? "forwardBackward" : "forward"](data(examples), "cross_entropy", { signal }),
      { required, seen: (output) => this.#seen(operation, output) },
    );
  }

  #seen(operation: Extract<Operation, { kind: "pass" }>, output: { readonly lossFnOutputs: readonly unknown[] }): void {
    operation.logprobs = output.lossFnOutputs.map((each) => {
      const { logprobs } = each as { readonly logprobs: { readonly values: ArrayLike<number> } };
      return Array.from(logprobs.values, Number);
    });
  }

  async #optimize(
    client: ClientProcess,
    trainer: TrainingClient,
    model: TrackedModel,
    required = false,
  ): Promise<void> {
    const learningRate = (1 + client.random.below(1000)) / 1e6;
    await this.#tracked(
      client,
      model,
      { kind: "step", learningRate },
      "optimStep",
      (signal) => trainer.optimStep({ learningRate }, { signal }),
      {
        required,
      },
    );
  }

  async #step(client: ClientProcess, trainer: TrainingClient, model: TrackedModel): Promise<void> {
    const examples = this.#batch(client.random);
    const operation = this.#operation(examples, true);
    const learningRate = (1 + client.random.below(1000)) / 1e6;
    const second: Call = { operation: { kind: "step", learningRate }, outcome: "unknown" };
    const done = this.#tracked(client, model, operation, "step", (signal) =>
      trainer.step(data(examples), "cross_entropy", { learningRate }, { signal }),
    );
    model.calls.push(second);
    if ((await done) !== undefined) second.outcome = "done";
  }

  async #custom(client: ClientProcess, trainer: TrainingClient, model: TrackedModel, loss: CustomLoss): Promise<void> {
    const examples = this.#batch(client.random, 2);
    const operation = this.#operation(examples, true);
    await this.#tracked(
      client,
      model,
      operation,
      "forwardBackwardCustom",
      (signal) => trainer.forwardBackwardCustom(data(examples), loss, { signal }),
      { seen: (output) => this.#seen(operation, output) },
    );
  }

  async #save(
    client: ClientProcess,
    trainer: TrainingClient,
    model: TrackedModel,
    name: string,
    paths: Map<string, Saved>,
  ): Promise<void> {
    const ttlSeconds = client.random.chance(0.3) ? client.random.pick([2, 10, 86_400]) : undefined;
    const overwrite = client.random.chance(0.2) ? true : undefined;
    const startedAt = this.options.scheduler.now;
    const saved = await this.#tracked(client, model, { kind: "save", name }, `saveState ${name}`, (signal) =>
      trainer.saveState(name, { signal, ttlSeconds, overwrite }),
    );
    const ttlMs = (ttlSeconds ?? Number.POSITIVE_INFINITY) * 1000;
    const endsBy = this.options.scheduler.now + ttlMs;
    if (saved !== undefined) paths.set(name, { path: saved.path, livesUntil: startedAt + ttlMs, endsBy });
  }

  async #export(client: ClientProcess, trainer: TrainingClient, model: TrackedModel, name: string): Promise<void> {
    await this.#tracked(client, model, { kind: "save", name }, `saveWeightsExternal ${name}`, (signal) =>
      trainer.saveWeightsExternal(name, { signal }),
    );
  }

  /** What a checkpoint that has expired must not do. */
  #checkLive(what: string, { path, endsBy }: Saved, startedAt: number): void {
    if (startedAt > endsBy && this.options.clockIsSteady())
      this.options.problem(`${what} of ${path} succeeded at ${startedAt}, and it expired by ${endsBy}`);
  }

  async #delete(client: ClientProcess, paths: Map<string, Saved>): Promise<void> {
    const [name] = paths.keys();
    if (name === undefined) return;
    const { path } = paths.get(name)!;
    paths.delete(name);
    await client.call("deleteCheckpoint", (signal) =>
      client.service.createRestClient().deleteCheckpointFromTinkerPath(path, { signal }),
    );
  }

  /** A call that must be refused. */
  async #err(client: ClientProcess, trainer: TrainingClient, paths: Map<string, Saved>): Promise<void> {
    const { service, random } = client;
    const weights = this.targets.find(({ tenant, path }) => tenant === client.tenant && path !== undefined)?.path;
    const [used] = [...paths.keys()].slice(-1);
    const saved = used === undefined ? undefined : paths.get(used)!;
    const [what, attempt] = random.pick(
      trainingMistakes({ service, trainer, random, used, state: saved?.path, weights, baseModel }),
    );
    // The name of a checkpoint that was deleted or has expired may be used again.
    const isFree = () => what === nameInUse && (paths.get(used!) !== saved || !this.#isLive(saved!));
    await this.#refused(client, what, attempt, isFree);
  }

  /** Whether a checkpoint that was not deleted has certainly not expired. */
  #isLive({ livesUntil }: Saved): boolean {
    const { scheduler, clockIsSteady } = this.options;
    return scheduler.now + (clockIsSteady() ? 0 : mostSetMs) < livesUntil;
  }

  async #refused(
    client: ClientProcess,
    what: string,
    attempt: (signal: AbortSignal) => PromiseLike<unknown>,
    maySucceed = () => false,
  ) {
    const seen = await client.call(what, attempt, { mayFail: true });
    if (seen !== undefined && !maySucceed())
      this.options.problem(`${client.owner.name}: ${what} succeeded: ${JSON.stringify(seen).slice(0, 200)}`);
  }

  /** A second model, made from a checkpoint of the first. */
  async #fork(client: ClientProcess, origin: TrackedModel, paths: Map<string, Saved>): Promise<void> {
    if (paths.size === 0) return;
    const { service, random } = client;
    const [name, saved] = random.pick([...paths]);
    const optimizer = random.chance(0.5);
    const startedAt = this.options.scheduler.now;
    const trainer = await client.call(
      `createTrainingClientFromState ${name}`,
      (signal) =>
        optimizer
          ? service.createTrainingClientFromStateWithOptimizer(saved.path, { signal })
          : service.createTrainingClientFromState(saved.path, { signal }),
      { mayFail: true }, // deleted or expired by then
    );
    if (trainer === undefined) return;
    this.#checkLive("a model", saved, startedAt);
    const model: TrackedModel = {
      client: client.owner.name,
      tenant: client.tenant,
      seed: 0,
      calls: [],
      samples: [],
      from: { model: origin, name, optimizer },
      modelId: trainer.modelId,
    };
    this.models.push(model);
    await Promise.all([
      this.#pass(client, trainer, model, true),
      this.#optimize(client, trainer, model),
      this.#pass(client, trainer, model, false),
    ]);
    const unloaded = await client.call("unload", (signal) => trainer.unload({ signal }));
    if (unloaded === undefined) return;
    await this.#refused(client, "a pass of an unloaded model", (signal) =>
      trainer.forward(data(this.#batch(random)), "cross_entropy", { signal }),
    );
  }

  async #load(
    client: ClientProcess,
    trainer: TrainingClient,
    model: TrackedModel,
    paths: Map<string, Saved>,
  ): Promise<void> {
    const [name, saved] = client.random.pick([...paths]);
    const optimizer = client.random.chance(0.5);
    const startedAt = this.options.scheduler.now;
    const loaded = await this.#tracked(
      client,
      model,
      { kind: "load", name, optimizer },
      `loadState ${name}`,
      (signal) => trainer[optimizer ? "loadStateWithOptimizer" : "loadState"](saved.path, { signal }),
      { mayFail: true }, // deleted or expired by then
    );
    if (loaded !== undefined) this.#checkLive("a load", saved, startedAt);
  }

  async #sampleModel(client: ClientProcess, trainer: TrainingClient, model: TrackedModel): Promise<void> {
    const name = `sampler${model.calls.length}`;
    const sampler = await this.#tracked(
      client,
      model,
      { kind: "sampler", name },
      "saveWeightsAndGetSamplingClient",
      async (signal) => {
        if (!client.random.chance(0.4)) return trainer.saveWeightsAndGetSamplingClient({ signal });
        const { path } = await trainer.saveWeightsForSampler(name, { signal });
        this.targets.push({
          tenant: client.tenant,
          modelId: trainer.modelId,
          samplingSessionId: undefined,
          path,
          requestId: undefined,
        });
        return trainer.createSamplingClient(path, { signal });
      },
    );
    if (sampler === undefined) return;
    this.targets.push({
      tenant: client.tenant,
      modelId: trainer.modelId,
      samplingSessionId: sampler.samplingSessionId,
      path: undefined,
      requestId: undefined,
    });
    await Promise.all(
      Array.from({ length: client.random.between(1, 3) }, async () => {
        const sample = await this.#draw(client, sampler);
        if (sample !== undefined) model.samples.push({ sampler: name, ...sample });
      }),
    );
  }

  /** One sample, streamed or not. */
  async #draw(
    client: ClientProcess,
    sampler: SamplingClient,
    required = false,
  ): Promise<Omit<Sample, "sampler"> | undefined> {
    const { random } = client;
    const prompt = Array.from({ length: random.between(1, 6) }, () => random.below(vocabularySize));
    const seed = random.below(1_000_000);
    // 64 sequences run at once.
    const many = this.options.isCrowded ? 32 : 40;
    const numSamples = random.chance(this.options.isCrowded ? 0.5 : 0.03) ? many : random.chance(0.3) ? 2 : 1;
    const rows = prompt.length - 1;
    const more: SampleOptions =
      this.options.isOldServer || required || !random.chance(0.25)
        ? {}
        : random.pick<SampleOptions>([
            { includePromptLogprobs: true },
            { topkSampleLogprobs: 2 },
            { promptAltTokensK: 2 },
            ...(rows === 0
              ? []
              : [
                  { includePromptLogprobs: true, promptLogprobsLastN: 1, topkPromptLogprobs: 2 },
                  { targetPromptLogprobs: targetsOf(rows) },
                  { targetPromptLogprobs: sparseOf(rows) },
                ]),
          ]);
    const options = {
      numSamples,
      ...more,
      // A call that must succeed has the time that the engine takes.
      ...(!required && random.chance(0.05) ? { timeoutMs: 500 + random.below(20_000) } : {}),
      samplingParams: { maxTokens: random.between(1, 5), seed },
    };
    if (random.chance(0.25) && !required) {
      const response = await client.call("stream", async (signal) => {
        const shown: number[][] = [];
        const text = random.chance(0.4) ? { tokenizer: bytesAsText } : {};
        const stream = sampler.stream(prompt, { ...options, ...text, signal });
        // A reader may leave before the end.
        const most = random.chance(0.15) ? random.below(4) : Number.POSITIVE_INFINITY;
        const leaves = random.chance(0.5);
        const left = new Cancelled("the reader");
        let seen = 0;
        try {
          for await (const { index, token } of stream) {
            while (shown.length <= index) shown.push([]);
            shown[index]!.push(token);
            if (++seen <= most) continue;
            if (leaves) break;
            stream.cancel(left);
          }
        } catch (error) {
          if (error !== left) throw error;
        }
        return shown;
      });
      return response && { prompt, seed, sequences: response };
    }
    const response = await client.call("sample", (signal) => sampler.sample(prompt, { ...options, signal }), {
      required,
      mayCancel: !required,
    });
    if (response === undefined) return undefined;
    if (response.sequences.length !== numSamples) {
      this.options.problem(`${client.owner.name}: asked for ${numSamples} samples, got ${response.sequences.length}`);
    }
    return { prompt, seed, sequences: response.sequences.map(({ tokenArray }) => Array.from(tokenArray)) };
  }

  async #sample(client: ClientProcess): Promise<void> {
    const { random, service } = client;
    let sampler: SamplingClient | undefined;
    while (sampler === undefined) {
      const required = this.options.scheduler.now > this.steadyFromMs;
      sampler = await client.call(
        "createSamplingClient",
        (signal) => service.createSamplingClient({ baseModel, signal }),
        {
          required,
          mayCancel: !required,
        },
      );
      if (sampler === undefined) {
        if (required || client.isClosed) return;
        await client.sleep(1000 + random.below(20_000));
      }
    }
    this.targets.push({
      tenant: client.tenant,
      modelId: "",
      samplingSessionId: sampler.samplingSessionId,
      path: undefined,
      requestId: undefined,
    });
    const samplers = [sampler];
    // A second client of the same sampling session, as another process has it.
    const handle = random.chance(0.15)
      ? await client.call("handle", (signal) => samplers[0]!.handle({ signal }))
      : undefined;
    const second = handle && SamplingClient.fromHandle(handle, client.options);
    if (second !== undefined) samplers.push(second);
    const judged = async (required = false) => {
      const sample = await this.#draw(client, random.pick(samplers), required);
      for (const [i, tokens] of (sample?.sequences ?? []).entries()) {
        const expected = sampledTokens(baseWeights, sample!.prompt, sample!.seed + i, tokens.length, vocabularySize);
        if (expected.some((token, at) => token !== tokens[at])) {
          this.options.problem(
            `${client.owner.name}: a sample of the base model has the tokens ${tokens}, and ${expected} were drawn`,
          );
        }
      }
    };
    for (let rounds = random.between(2, 3); rounds > 0; rounds--) {
      await Promise.all(Array.from({ length: random.between(1, 5) }, () => judged()));
      if (random.chance(0.5)) await client.sleep(random.fraction() * 15_000);
      if (random.chance(0.3))
        await this.#refused(client, ...random.pick(samplingMistakes(random.pick(samplers), random, contextLength)));
    }
    while (this.records.length < fewestCalls) await judged();
    const leftMs = this.steadyFromMs - this.options.scheduler.now;
    if (leftMs > 0) await client.sleep(leftMs + random.below(5000));
    await judged(true);
    await second?.close();
  }

  /** Asks for what belongs to others: it must never be given. */
  async #pry(client: ClientProcess): Promise<void> {
    const { random, service } = client;
    const rest = service.createRestClient();
    for (let tries = random.between(3, 6); tries > 0; tries--) {
      await client.sleep(random.fraction() * 10_000);
      const others = this.targets.filter(({ tenant }) => tenant !== client.tenant);
      const target = others.length === 0 ? undefined : random.pick(others);
      const refused = async (what: string, run: (signal: AbortSignal) => PromiseLike<unknown>) => {
        const seen = await client.call(what, run);
        if (seen !== undefined)
          this.options.problem(
            `${client.owner.name} was given ${what} of ${target!.tenant}: ${JSON.stringify(seen).slice(0, 300)}`,
          );
      };
      const kind = random.below(6);
      if (kind === 0 || target === undefined) {
        const runs = await client.call("listTrainingRuns", (signal) =>
          rest.listTrainingRuns({ signal }).then((page) => page),
        );
        const foreign = others.find(
          ({ modelId }) => modelId !== "" && JSON.stringify(runs ?? {}).includes(`"${modelId}"`),
        );
        if (foreign !== undefined)
          this.options.problem(`${client.owner.name} sees the run ${foreign.modelId} of ${foreign.tenant}`);
      } else if (kind === 1 && target.modelId !== "")
        await refused("getInfo", (signal) => service.api.getInfo({ modelId: target.modelId }, { signal }));
      else if (kind === 2 && target.samplingSessionId !== undefined) {
        const { samplingSessionId } = target;
        await refused("getSampler", (signal) => service.api.getSampler({ samplerId: samplingSessionId }, { signal }));
      } else if (kind === 3 && target.modelId !== "") {
        await refused("getTrainingRun", (signal) => rest.getTrainingRun(target.modelId, { signal }));
      } else if (kind === 4 && target.modelId !== "") {
        await refused("optimStep", (signal) =>
          service.api.optimStep(
            {
              modelId: target.modelId,
              seqId: random.between(1, 5),
              adamParams: { learningRate: 1, beta1: 0.9, beta2: 0.95, eps: 1e-12 },
            } as never,
            { signal },
          ),
        );
      } else await client.call("getServerCapabilities", (signal) => service.getServerCapabilities({ signal }));
    }
  }
}

/** Tokens as bytes of UTF-8: a character may take several, and its first may be missing. */
const bytesAsText = { decode: (tokens: number[]) => new TextDecoder().decode(Uint8Array.from(tokens)) };

const targetsOf = (rows: number) =>
  TensorData.from(
    BigInt64Array.from({ length: rows * 2 }, (_, i) => (i === 0 ? 7n : -1n)),
    { shape: [rows, 2] },
  );
/** One target, in the last row. */
const sparseOf = (rows: number) =>
  TensorData.ofParts({
    dtype: "int64",
    values: BigInt64Array.of(9n),
    shape: [rows, 2],
    sparseCrowIndices: BigInt64Array.from({ length: rows + 1 }, (_, i) => (i === rows ? 1n : 0n)),
    sparseColIndices: BigInt64Array.of(1n),
  });

const data = (examples: readonly Example[]) =>
  examples.map(({ tokens, targets }) => ({
    modelInput: [...tokens],
    lossFnInputs: { target_tokens: [...targets], weights: targets.map(() => 1) },
  }));
