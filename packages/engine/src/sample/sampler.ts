/**
 * Continuous batching. Requests wait, are prefilled (except for what the prefix cache has, see `prefill.ts`), and then decode together,
 * with any mix of adapters. `step()` does one unit of work (a prefill, or one token for every active sequence) and returns, so that the
 * caller can interleave other work. A sequence's tokens depend only on its own request.
 */

import type { Tokenizer } from "@tinklet/models/tokenizer";
import { type AdapterWeights, areFinite } from "../adapter/adapter.ts";
import { type Account, createSlice, type Slice } from "../constrain/budget.ts";
import type { GrammarCompiler } from "../constrain/constraint.ts";
import type { Follower, Grammar } from "../constrain/grammar.ts";
import { EngineError, InputError, MemoryError } from "../errors.ts";
import type { LoadedModel } from "../model/load.ts";
import { createRandom, drawSeed } from "../random.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { DeviceAdapters } from "../train/device-adapters.ts";
import type {
  Constraint,
  EngineStats,
  PromptTargets,
  SampledSequence,
  SampleRequest,
  SampleResult,
  SamplingParams,
  TokenEvent,
} from "../types.ts";
import { argmax, best, type Choice, chooseToken } from "./choose-token.ts";
import { createPagedSequences } from "./device/paged-sequences.ts";
import type { Packing } from "./extender.ts";
import { createHostSequences } from "./host-sequences.ts";
import type { KvBlock } from "./kv-block.ts";
import { narrowed, readShape, type Shape, shaped } from "./logits-processors.ts";
import { overflowSlots } from "./overflow-slots.ts";
import { isScored, type Prefilled, type PromptScores, unscoredTokens } from "./prefill.ts";
import {
  blockTokens,
  createPrefixCache,
  type Distribution,
  type PrefixLease,
  type PrefixQuery,
} from "./prefix-cache.ts";
import type { Decoded, DecodeRow, Drawn, DrawOptions, Sequences } from "./sequences.ts";
import { type StopRules, StopWatch, stopRules } from "./stop.ts";

const notFinite = "the model's output is not a number: its weights, or the adapter's, are broken or overflow";

export interface SamplerOptions {
  readonly contextLength: number;
  /** Maximum sequences in a batch, plus overflow slots. */
  readonly maxBatch: number;
  /** Maximum bytes of the caches. */
  readonly cacheBytes: number;
  readonly eosTokenIds: readonly number[];
  readonly packing: Packing;
  /** Maximum bytes for intermediate results of a run, on a device. @defaultValue no limit */
  readonly activationBytes?: number;
  /** The adapters on the device, if the runtime has one. @defaultValue its own */
  readonly adapters?: DeviceAdapters;
  /** Called once, for the first stop string. */
  readonly tokenizer?: () => Promise<Tokenizer>;
  /** Called once, for the first response format. */
  readonly compiler?: () => Promise<GrammarCompiler>;
}

interface Job extends PromptScores {
  readonly prompt: Int32Array;
  readonly adapter: AdapterWeights | undefined;
  readonly numSamples: number;
  readonly seed: number;
  readonly temperature: number;
  readonly choice: Choice;
  readonly shape: Shape | undefined;
  readonly maxTokens: number;
  readonly rules: StopRules;
  readonly topkSampleLogprobs: number;
  readonly onToken: ((event: TokenEvent) => void) | undefined;
  /** The format of its samples. {@link grammar} is set once it is compiled, before the prefill. */
  readonly constraint: Constraint | undefined;
  grammar?: Grammar;
  /** Grammar work that its samples may use. */
  account?: Account;
  readonly resolve: (result: SampleResult) => void;
  readonly reject: (error: unknown) => void;
  readonly sequences: Sequence[];
  readonly scope: string;
  /** Lease on the prefix cache, from the start of the prefill to the start of the last sample. */
  lease?: PrefixLease;
  /** Set between the prefill and the start of the last sample. */
  prefilled?: Prefilled;
  prompted?: Prefilled["prompted"];
  hitTokens?: number;
  cancelled?: { readonly reason: unknown };
}

interface Sequence {
  readonly job: Job;
  readonly index: number;
  readonly random: () => number;
  readonly watch: StopWatch;
  readonly tokens: number[];
  readonly logprobs: number[];
  readonly top: TokenTableDraft;
  /** Occurrences of each token, if penalties need them. */
  readonly counts: Map<number, number>;
  readonly follower: Follower | undefined;
  stopReason?: "stop" | "length";
  /** The distribution of its next token, while its format's mask is being computed. */
  held?: Distribution;
}

/** `topkLogprobs` of the sequence. */
interface TokenTableDraft {
  readonly tokenIds: number[];
  readonly logprobs: number[];
}

/**
 * Maximum 1 / temperature: above it the smallest difference between logits already decides, and products with logits must stay finite in
 * float32.
 */
const coldest = 1e30;

/** Factor on the logits; greedy sequences ignore the result. */
const coldnessOf = (temperature: number): number => (temperature > 0 ? Math.min(1 / temperature, coldest) : 1);

const queryOf = (job: Job): PrefixQuery => ({
  prompt: job.prompt,
  weights: job.adapter,
  scope: job.scope,
  coldness: coldnessOf(job.temperature),
  usable: unscoredTokens(job, job.prompt.length),
});

/** The parts of a request that are not data. */
export interface SubmitOptions {
  readonly onToken?: ((event: TokenEvent) => void) | undefined;
}

/** A submitted request. */
export interface SampleHandle {
  readonly result: Promise<SampleResult>;
  /** Takes effect between two tokens; the result rejects with the reason. */
  cancel(reason: unknown): void;
}

export class Sampler {
  readonly #model: LoadedModel;
  /** In the order of `#active`. */
  readonly #sequences: Sequences;
  readonly #options: SamplerOptions;
  readonly #waiting: Job[] = [];
  readonly #active: Sequence[] = [];
  /** Uses cache memory that sequences do not need. */
  readonly #prefixes = createPrefixCache();
  /** Adapters known to have only finite weights. */
  readonly #finite = new WeakSet<AdapterWeights>();
  #tokenizer: Tokenizer | undefined;
  #compiler: GrammarCompiler | undefined;
  /** Grammar work that this step may still do. */
  #slice: Slice = createSlice();

  constructor(model: LoadedModel, runtime: Runtime, options: SamplerOptions) {
    this.#model = model;
    this.#options = options;
    const { device } = runtime;
    this.#sequences = device
      ? createPagedSequences(model, device, {
          ...options,
          reclaim: (bytes) => {
            this.#prefixes.shrinkTo(this.#prefixes.bytes - bytes);
            return this.#heldBlocks();
          },
        })
      : createHostSequences(model, runtime, {
          ...options,
          beforeResize: (bytes) => this.#prefixes.shrinkTo(options.cacheBytes - bytes),
        });
  }

  get busy(): boolean {
    return this.#waiting.length > 0 || this.#active.length > 0;
  }

  get stats(): Pick<
    EngineStats,
    "activeSequences" | "waitingSequences" | "cacheBytes" | "prefixCacheBytes" | "grammarBytes"
  > {
    const waitingSequences = this.#waiting.reduce((sum, job) => sum + job.numSamples, 0);
    return {
      activeSequences: this.#active.length,
      waitingSequences,
      cacheBytes: this.#sequences.bytes,
      prefixCacheBytes: this.#prefixes.bytes,
      grammarBytes: this.#compiler?.bytes ?? 0,
    };
  }

  /** Drops cached prompts of weights that no longer exist. */
  keepPrefixesOf(isHeld: (weights: AdapterWeights) => boolean): void {
    this.#prefixes.keepOnly(isHeld);
  }

  /** Blocks referenced by requests or by the prefix cache. */
  *#heldBlocks(): Iterable<KvBlock> {
    yield* this.#prefixes.blocks();
    for (const { lease, prefilled } of [...this.#waiting, ...this.#active.map(({ job }) => job)]) {
      if (lease) yield* lease.blocks;
      if (lease?.ending) yield lease.ending.block;
      if (prefilled) yield* prefilled.blocks;
    }
  }

  /** Weights in use by requests. */
  *usedWeights(): Iterable<AdapterWeights> {
    for (const { adapter } of this.#waiting) if (adapter) yield adapter;
    for (const { job } of this.#active) if (job.adapter) yield job.adapter;
  }

  /** Validates and queues a request. `adapter` must not change while the request exists. */
  submit(request: SampleRequest, adapter: AdapterWeights | undefined, options: SubmitOptions = {}): SampleHandle {
    const { onToken } = options;
    let job: Job | undefined;
    const result = new Promise<SampleResult>((resolve, reject) => {
      if (adapter && !this.#sequences.draws) this.#checkAdapter(adapter); // on a device, adapters are checked there
      job = { ...this.#check(request), adapter, onToken, resolve, reject, sequences: [] };
      this.#waiting.push(job);
    });
    return {
      result,
      cancel: (reason) => {
        if (job) job.cancelled = { reason };
      },
    };
  }

  /** Adapters of a batch are multiplied together, with zeros for other sequences, and 0 · NaN is NaN. */
  #checkAdapter(adapter: AdapterWeights): void {
    if (this.#finite.has(adapter)) return;
    if (!areFinite(adapter.values)) {
      throw new InputError("adapter", "has weights that are not finite", { code: "not_finite" });
    }
    this.#finite.add(adapter);
  }

  #check(request: SampleRequest): Omit<Job, "adapter" | "onToken" | "resolve" | "reject" | "sequences"> {
    const params: SamplingParams = request.params ?? {};
    const { vocabSize } = this.#model.config;
    const { contextLength } = this.#options;
    const prompt = Int32Array.from(request.prompt);
    prompt.forEach((token, i) => {
      if (token < 0 || token >= vocabSize || request.prompt[i] !== token) {
        throw new InputError(`prompt[${i}]`, `token ${request.prompt[i]} is not in the vocabulary of ${vocabSize}`);
      }
    });
    if (prompt.length === 0) throw new InputError("prompt", "is empty");
    if (prompt.length > contextLength) {
      throw new InputError("prompt", `${prompt.length} tokens exceed the context of ${contextLength}`);
    }
    const number = (name: string, value: number, { ok, wanted }: Wanted): number => {
      if (typeof value !== "number" || !ok(value)) throw new InputError(name, `${value} is not ${wanted}`);
      return value;
    };
    const scope = request.scope ?? "";
    if (typeof scope !== "string") throw new InputError("scope", `must be a string, got ${String(scope)}`);
    const natural = (x: number): boolean => Number.isInteger(x) && x >= 0;
    const room = contextLength - prompt.length;
    const maxTokens = number("params.maxTokens", params.maxTokens ?? room, {
      ok: natural,
      wanted: "a number of tokens",
    });
    const numSamples = number("numSamples", request.numSamples ?? 1, {
      ok: (x) => Number.isInteger(x) && x > 0,
      wanted: "a positive integer",
    });
    const temperature = number("params.temperature", params.temperature ?? 1, {
      ok: (x) => x >= 0 && x < Infinity,
      wanted: "≥ 0",
    });
    const topK = number("params.topK", params.topK ?? -1, {
      ok: (x) => Number.isInteger(x) && x >= -1,
      wanted: "-1 or more",
    });
    const topP = number("params.topP", params.topP ?? 1, { ok: (x) => x > 0 && x <= 1, wanted: "within (0, 1]" });
    const minP = number("params.minP", params.minP ?? 0, { ok: (x) => x >= 0 && x <= 1, wanted: "within [0, 1]" });
    const count = (name: "topkPromptLogprobs" | "topkSampleLogprobs" | "promptAltTokensK"): number =>
      number(name, request[name] ?? 0, { ok: (x) => natural(x) && x <= vocabSize, wanted: "a count" });
    checkTargets(request.targetPromptLogprobs, { length: prompt.length, vocabSize });
    const lastN = number("promptLogprobsLastN", request.promptLogprobsLastN ?? prompt.length, {
      ok: natural,
      wanted: "a number of tokens",
    });
    const seed = number("params.seed", params.seed ?? drawSeed(), { ok: Number.isSafeInteger, wanted: "an integer" });
    const bytes = this.#sequences.bytesFor(1, prompt.length + Math.min(maxTokens, room));
    if (bytes > this.#options.cacheBytes) {
      throw new MemoryError(`a cache for ${prompt.length + Math.min(maxTokens, room)} tokens does not fit`, {
        neededBytes: bytes,
        budgetBytes: this.#options.cacheBytes,
        hint: "lower maxTokens or raise the memory budget",
      });
    }
    return {
      prompt,
      numSamples,
      seed,
      temperature,
      choice: { topK, topP, minP },
      shape: readShape(params, vocabSize),
      constraint: params.constraint,
      maxTokens: Math.min(maxTokens, room),
      rules: stopRules(params.stop, this.#options.eosTokenIds),
      promptLogprobs: request.promptLogprobs === true,
      topkPromptLogprobs: count("topkPromptLogprobs"),
      topkSampleLogprobs: count("topkSampleLogprobs"),
      promptAltTokensK: count("promptAltTokensK"),
      targetPromptLogprobs: request.targetPromptLogprobs,
      firstScored: Math.max(1, prompt.length - lastN),
      scope,
    };
  }

  /** One unit of work: a prefill if a request can start, otherwise one token for every active sequence; plus a slice of grammar work. */
  async step(): Promise<void> {
    this.#slice = createSlice(this.#slice);
    this.#dropCancelled();
    await this.#compileFormats();
    this.#takeHeld();
    this.#startSamples();
    const next = this.#nextToStart();
    if (next) {
      await this.#start(next);
      this.#dropCancelled();
      this.#startSamples();
    } else if (this.#active.some(({ held }) => held === undefined)) await this.#decode();
    else this.#slice = createSlice(); // no other work is waiting
    if (!this.busy) this.#sequences.forgetAdapters();
  }

  /** The first waiting request that fits; in a full batch, the first one with an overflow slot. */
  #nextToStart(): Job | undefined {
    const first = this.#waiting.find(isCompiled);
    if (first && !this.#waiting.some(({ prefilled }) => prefilled) && this.#hasRoomFor(first)) return first;
    return this.#waiting.find(
      (job) => isCompiled(job) && !job.prefilled && this.#isGuest(job) && this.#hasRoomFor(job),
    );
  }

  /** Compiles formats of requests in order, within the step's slice. */
  async #compileFormats(): Promise<void> {
    for (const job of this.#waiting) {
      if (isCompiled(job)) continue;
      try {
        this.#compiler ??= await this.#options.compiler?.();
        if (!this.#compiler) throw new InputError("params.constraint", "needs a tokenizer, and this model has none");
        const grammar = this.#compiler.compile(job.constraint!, this.#slice);
        if (grammar === undefined) return;
        checkRoom(grammar, job.maxTokens);
        job.grammar = grammar;
        job.account = grammar.account();
      } catch (error) {
        job.cancelled ??= { reason: error };
      }
      if (this.#slice.left <= 0) break;
    }
    this.#dropCancelled();
  }

  /** Draws the next tokens of sequences that waited for a mask; requests with the least grammar work first. */
  #takeHeld(): void {
    const held = this.#active.filter((sequence) => sequence.held !== undefined);
    if (held.length === 0) return;
    for (const sequence of byGrammarWork(held)) this.#take(sequence, sequence.held!);
    this.#releaseDone();
    this.#dropCancelled();
  }

  /** Whether the batch is full and has no sequence of the request's scope. */
  #isGuest({ scope }: Job): boolean {
    return this.#active.length >= this.#options.maxBatch && !this.#active.some(({ job }) => job.scope === scope);
  }

  /** Prefills a request together with others; those that fail are marked. */
  async #start(first: Job): Promise<void> {
    try {
      if (first.rules.texts.length > 0) await this.#needTokenizer();
    } catch (error) {
      first.cancelled = { reason: error };
      return;
    }
    const jobs = this.#prefilledWith(first);
    try {
      await this.#prefill(jobs);
    } catch (error) {
      for (const job of jobs) job.cancelled = { reason: error };
    }
    this.#prefixes.shrinkTo(this.#options.cacheBytes - this.#sequences.bytes);
  }

  /** Loads the tokenizer for stop strings. */
  async #needTokenizer(): Promise<void> {
    this.#tokenizer ??= await this.#options.tokenizer?.();
    if (!this.#tokenizer) {
      throw new InputError("params.stop", "stop strings need a tokenizer, and this model has none: use token ids");
    }
  }

  /**
   * A request and later ones that share its prefill run, because short prompts alone have too few rows to be efficient. At most as many as
   * can start at once, and at most twice as long as the others, since attention is a rectangle. A prompt that shares its beginning with
   * another one of the run waits, and then takes it from the cache.
   */
  #prefilledWith(first: Job): Job[] {
    const missingOf = (job: Job): number => job.prompt.length - this.#prefixes.match(queryOf(job));
    let rows = missingOf(first);
    const most = this.#sequences.mostPromptTokens;
    const [shortest, longest] = [rows / 2, rows * 2];
    let room = this.#options.maxBatch - this.#active.length - first.numSamples;
    const jobs = [first];
    if (isScored(first) || rows === 0) return jobs;
    for (const job of this.#waiting) {
      if (rows >= most) break;
      const stoppable = job.rules.texts.length === 0 || this.#tokenizer !== undefined;
      if (job === first || !isCompiled(job) || isScored(job) || !stoppable || job.numSamples > room) continue;
      const missing = missingOf(job);
      if (missing < shortest || missing > longest || rows + missing > most) continue;
      if (this.#sequences.isBounded && !this.#haveRoom([...jobs, job])) continue;
      if (jobs.some((other) => goOnAlike(job, other, job.prompt.length - missing))) continue;
      room -= job.numSamples;
      rows += missing;
      jobs.push(job);
    }
    return jobs;
  }

  #dropCancelled(): void {
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      const job = this.#waiting[i]!;
      if (job.cancelled) {
        this.#waiting.splice(i, 1);
        endPrefill(job);
        job.reject(job.cancelled.reason);
      }
    }
    for (let row = this.#active.length - 1; row >= 0; row--) {
      const { job } = this.#active[row]!;
      if (!job.cancelled) continue;
      this.#release(row);
      job.reject(job.cancelled.reason);
    }
  }

  /** Whether one more sequence of a request fits beside the active ones; a single sequence may always start. */
  #hasRoomFor(job: Job): boolean {
    if (this.#active.length === 0) return true;
    const sequences = this.#active.length + 1;
    const longest = Math.max(
      job.prompt.length + job.maxTokens,
      ...this.#active.map((sequence) => sequence.job.prompt.length + sequence.job.maxTokens),
    );
    return (
      sequences <= this.#options.maxBatch + (this.#isGuest(job) ? overflowSlots : 0) &&
      this.#sequences.bytesFor(sequences, longest) <= this.#options.cacheBytes
    );
  }

  /** Whether one sequence of each fits beside the active ones. */
  #haveRoom(jobs: readonly Job[]): boolean {
    const all = [...jobs, ...this.#active.map(({ job }) => job)];
    const longest = Math.max(...all.map(({ prompt, maxTokens }) => prompt.length + maxTokens));
    return this.#sequences.bytesFor(all.length, longest) <= this.#options.cacheBytes;
  }

  /** Starts as many samples of prefilled requests as fit; each starts with the prompt's cache and distribution. */
  #startSamples(): void {
    let isBlocked = false; // first come, first served; but overflow slots do not wait for a sequence to end
    for (const job of this.#waiting.filter(({ prefilled }) => prefilled)) {
      if (isBlocked && !this.#isGuest(job)) continue;
      while (job.prefilled && !job.cancelled && this.#hasRoomFor(job)) {
        try {
          this.#startSample(job, job.prefilled);
        } catch (error) {
          // The cache has no memory.
          job.cancelled = { reason: error };
          job.reject(error);
          this.#failAll(error);
          return;
        }
      }
      isBlocked ||= job.prefilled !== undefined;
    }
  }

  #startSample(job: Job, { blocks, last }: Prefilled): void {
    const index = job.sequences.length;
    const sequence: Sequence = {
      job,
      index,
      random: createRandom(job.seed + index, "sample"),
      watch: new StopWatch(job.rules, this.#tokenizer),
      tokens: [],
      logprobs: [],
      top: { tokenIds: [], logprobs: [] },
      counts: new Map(),
      follower: job.grammar?.follow(job.rules.tokens, job.account!),
    };
    job.sequences.push(sequence);
    if (job.sequences.length === job.numSamples) {
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      endPrefill(job);
    }
    if (job.maxTokens === 0) sequence.stopReason = "length";
    else this.#take(sequence, last);
    if (sequence.stopReason) this.#finishIfDone(job);
    else {
      this.#sequences.adopt(blocks);
      this.#active.push(sequence);
    }
  }

  async #prefill(jobs: readonly Job[]): Promise<void> {
    const leased = jobs.map((job) => {
      const lease = this.#prefixes.lease(queryOf(job));
      job.lease = lease;
      job.hitTokens = lease.hitTokens;
      const { prompt, adapter } = job;
      const isCancelled = (): boolean => job.cancelled !== undefined;
      return { prompt, adapter, scores: job, lease, coldness: coldnessOf(job.temperature), isCancelled };
    });
    const done = await this.#sequences.prefill(leased);
    jobs.forEach((job, index) => {
      const own = done?.[index];
      if (!own) return;
      job.prefilled = own;
      job.prompted = own.prompted;
    });
  }

  /**
   * Chooses a sequence's next token and decides whether it was the last. Holds the sequence while its format's mask is incomplete.
   *
   * @param random - a number already drawn for the sequence
   */
  #take(sequence: Sequence, row: Distribution, random?: number): void {
    const { job } = sequence;
    if (job.cancelled) return;
    if (!Number.isFinite(row.logSumExp)) {
      job.cancelled ??= { reason: new EngineError("not_finite", notFinite) };
      return;
    }
    const { shape, temperature } = job;
    const { follower } = sequence;
    let allowed: Int32Array | undefined;
    try {
      if (follower !== undefined && !follower.prepare(this.#slice)) {
        sequence.held ??= { ...row, logits: row.logits.slice(), probabilities: row.probabilities.slice() };
        return;
      }
      delete sequence.held;
      allowed = follower?.allowed(job.maxTokens - sequence.tokens.length);
    } catch (error) {
      job.cancelled ??= { reason: error };
      return;
    }
    const coldness = coldnessOf(temperature);
    const free = shape ? shaped(row, shape, { counts: sequence.counts, coldness }) : row;
    const wanted = allowed ? narrowed(free, allowed, coldness) : free;
    // Only logits that overflow at this temperature give NaN probabilities: then the largest logit has probability 1.
    const greedy = temperature === 0 || Number.isNaN(wanted.probabilities[0]);
    const choice = greedy
      ? argmax(wanted.logits)
      : chooseToken(wanted.probabilities, job.choice, random ?? sequence.random());
    const token = allowed ? allowed[choice]! : choice;
    const logprobOf = (id: number): number => Math.min(0, row.logits[id]! - row.logSumExp);
    if (shape) sequence.counts.set(token, (sequence.counts.get(token) ?? 0) + 1);
    const top = job.topkSampleLogprobs > 0 ? best(row.logits, job.topkSampleLogprobs) : [];
    this.#add(sequence, { token, logprob: logprobOf(token), top: top.map((id) => [id, logprobOf(id)] as const) });
  }

  /** Adds a token to a sequence and decides whether it was the last. */
  #add(sequence: Sequence, { token, logprob, top }: Drawn): void {
    const { job, follower } = sequence;
    if (job.cancelled) return;
    sequence.tokens.push(token);
    sequence.logprobs.push(logprob);
    for (const [id, own] of top) {
      sequence.top.tokenIds.push(id);
      sequence.top.logprobs.push(own);
    }
    try {
      follower?.push(token);
    } catch (error) {
      job.cancelled ??= { reason: error };
      return;
    }
    const isLast = sequence.tokens.length >= job.maxTokens;
    if (sequence.watch.push(token) || follower?.isOver || (isLast && follower?.isWhole)) sequence.stopReason = "stop";
    else if (isLast) sequence.stopReason = "length";
    try {
      job.onToken?.({
        index: sequence.index,
        token,
        logprob,
        promptCacheHitTokens: job.hitTokens ?? 0,
        ...(top.length > 0 ? { top } : {}),
        ...(sequence.stopReason ? { stopReason: sequence.stopReason } : {}),
      });
    } catch (error) {
      job.cancelled ??= { reason: error }; // an error in the listener affects only its own request
    }
  }

  /** The draw of a sequence's next token on the device; undefined if the request changes the distribution, which the host does. */
  #drawOf({ job, follower, random }: Sequence): DrawOptions | undefined {
    if (!this.#sequences.draws || job.shape || follower) return undefined;
    const greedy = job.temperature === 0;
    return { greedy, choice: job.choice, random: greedy ? 0 : random(), top: job.topkSampleLogprobs };
  }

  async #decode(): Promise<void> {
    const sequences = [...this.#active];
    const rows = sequences.map((sequence): DecodeRow => {
      const isHeld = sequence.held !== undefined;
      return {
        token: sequence.tokens.at(-1) ?? 0, // a held sequence ignores the result
        adapter: sequence.job.adapter,
        coldness: coldnessOf(sequence.job.temperature),
        isHeld,
        draw: isHeld ? undefined : this.#drawOf(sequence),
      };
    });
    let results: readonly Decoded[];
    try {
      results = await this.#sequences.decode(rows);
    } catch (error) {
      this.#failAll(error);
      return;
    }
    const places = new Map(sequences.map((sequence, row) => [sequence, row]));
    for (const sequence of byGrammarWork(sequences.filter(({ held }) => held === undefined))) {
      const row = places.get(sequence)!;
      const result = results[row]!;
      if ("distribution" in result) this.#take(sequence, result.distribution, rows[row]!.draw?.random);
      else if (Number.isFinite(result.drawn.logprob)) this.#add(sequence, result.drawn);
      else sequence.job.cancelled ??= { reason: new EngineError("not_finite", notFinite) };
    }
    this.#releaseDone();
  }

  /** Removes finished sequences from the batch. */
  #releaseDone(): void {
    for (let row = this.#active.length - 1; row >= 0; row--) {
      const sequence = this.#active[row]!;
      if (!sequence.stopReason) continue;
      this.#release(row);
      this.#finishIfDone(sequence.job);
    }
  }

  /** Removes a sequence from the batch; the last one moves to its row, here and in the cache. */
  #release(row: number): void {
    this.#sequences.remove(row);
    const last = this.#active.pop()!;
    if (row < this.#active.length) this.#active[row] = last;
  }

  /** After a failure that leaves the cache in an unknown state: all sequences in it fail; waiting requests are kept. */
  #failAll(error: unknown): void {
    for (const { job } of this.#active) {
      job.cancelled ??= { reason: error };
      job.reject(error);
    }
    this.#active.length = 0;
    this.#sequences.clear();
  }

  #finishIfDone(job: Job): void {
    if (job.cancelled) {
      job.reject(job.cancelled.reason);
      return;
    }
    if (job.sequences.length < job.numSamples || job.sequences.some(({ stopReason }) => !stopReason)) return;
    job.resolve({
      sequences: job.sequences.map(
        ({ tokens, logprobs, top, stopReason }): SampledSequence => ({
          stopReason: stopReason!,
          tokens: Int32Array.from(tokens),
          logprobs: Float32Array.from(logprobs),
          ...(job.topkSampleLogprobs > 0
            ? {
                topkLogprobs: {
                  k: job.topkSampleLogprobs,
                  tokenIds: Int32Array.from(top.tokenIds),
                  logprobs: Float32Array.from(top.logprobs),
                },
              }
            : {}),
        }),
      ),
      seed: job.seed,
      promptCacheHitTokens: job.hitTokens ?? 0,
      ...job.prompted,
    });
  }

  /** Rejects all queued and running requests. */
  async dispose(reason: unknown): Promise<void> {
    for (const job of new Set([...this.#waiting, ...this.#active.map((sequence) => sequence.job)])) job.reject(reason);
    this.#waiting.length = 0;
    this.#active.length = 0;
    await this.#sequences.dispose();
  }
}

/** @throws InputError if no text of the format fits */
const checkRoom = ({ cost }: Grammar, maxTokens: number): void => {
  if (cost <= maxTokens) return;
  throw new InputError(
    "params.maxTokens",
    `the shortest answer in this format may take ${cost} tokens, and ${maxTokens} are left for it`,
    { code: "no_room_for_format" },
  );
};

const isCompiled = ({ constraint, grammar }: Job): boolean => constraint === undefined || grammar !== undefined;

/** Sequences without a format first, then those whose requests have used the least grammar work. */
const byGrammarWork = (sequences: readonly Sequence[]): readonly Sequence[] => {
  const stepsOf = ({ follower }: Sequence): number => follower?.steps ?? -1;
  return [...sequences].sort((a, b) => stepsOf(a) - stepsOf(b));
};

/** The condition on a number of a request, as a test and in words. */
interface Wanted {
  readonly ok: (value: number) => boolean;
  readonly wanted: string;
}

/** Releases the prompt's blocks and distribution. */
const endPrefill = (job: Job): void => {
  job.lease?.release();
  delete job.lease;
  delete job.prefilled;
};

/** Whether both prompts would add the same tokens from `start` on to the same part of the cache. */
const goOnAlike = (a: Job, b: Job, start: number): boolean => {
  if (a.adapter !== b.adapter || a.scope !== b.scope) return false;
  const end = Math.min(start + blockTokens, Math.max(a.prompt.length, b.prompt.length));
  for (let i = 0; i < end; i++) if (a.prompt[i] !== b.prompt[i]) return false;
  return true;
};

/** @throws InputError naming the cell */
const checkTargets = (
  targets: PromptTargets | undefined,
  { length, vocabSize }: { length: number; vocabSize: number },
): void => {
  if (!targets) return;
  const { positions, tokens } = targets;
  if (positions.length !== tokens.length || positions.length === 0) {
    throw new InputError("targetPromptLogprobs", "names no token, or not as many positions as tokens");
  }
  tokens.forEach((token, i) => {
    const position = positions[i]!;
    if (position < 1 || position >= length) {
      throw new InputError("targetPromptLogprobs", `position ${position} is not within 1 … ${length - 1}`);
    }
    if (token < 0 || token >= vocabSize) {
      throw new InputError("targetPromptLogprobs", `token ${token} is not in the vocabulary of ${vocabSize}`);
    }
  });
};
