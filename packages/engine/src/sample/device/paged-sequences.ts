/**
 * Sequences whose KV cache is in pages on a device. Prefill and decoding run adapter by adapter: a step over several adapters takes as many
 * runs. Tokens are drawn on the device; a row of logits is copied to the host only if the request changes its distribution, or if the
 * filters keep more tokens than the device's candidates.
 */
import type { ModelConfig } from "@tinklet/models/config";
import type { AdapterWeights } from "../../adapter/adapter.ts";
import { DeviceError, InputError, MemoryError } from "../../errors.ts";
import { Graph } from "../../graph/graph.ts";
import { gather } from "../../graph/ops.ts";
import type { LoadedModel } from "../../model/load.ts";
import { RopeCache } from "../../model/rope.ts";
import type { Device, DeviceOutputs, DeviceProgram, RunInput } from "../../runtime/device.ts";
import { createProgramCache } from "../../runtime/program-cache.ts";
import { f32, i32, type Value } from "../../runtime/runtime.ts";
import { DeviceAdapters } from "../../train/device-adapters.ts";
import { ResidentTables } from "../../train/resident-tables.ts";
import { type KvBlock, lengthOf } from "../kv-block.ts";
import { plain, shaped } from "../logits-processors.ts";
import {
  type Prefilled,
  type PrefillJob,
  type PrefillResult,
  type PrefillRun,
  type PrefillRunner,
  prefill,
  scoredLogits,
} from "../prefill.ts";
import { startsOf } from "../prefill-inputs.ts";
import type { Distribution } from "../prefix-cache.ts";
import type { Decoded, DecodeRow, DrawOptions, Sequences } from "../sequences.ts";
import { drawRows, drawTables, isFiltered } from "./draw-inputs.ts";
import { forEachSide, type PageKey, pageGraph, pageNames, pageTokens } from "./page-graph.ts";
import { type PageBlock, PagePool, pageBytes, pagesOf } from "./pages.ts";

export interface PagedSequencesOptions {
  /** Size of all pages. */
  readonly cacheBytes: number;
  /** Maximum bytes for intermediate results of a run. @defaultValue no limit */
  readonly activationBytes?: number;
  readonly contextLength: number;
  readonly adapters?: DeviceAdapters;
  /** Evicts this many bytes of cached prompts and returns the blocks that are still referenced. */
  readonly reclaim: (neededBytes: number) => Iterable<KvBlock>;
}

interface Sequence {
  readonly pages: number[];
  length: number;
  /** The last block of its prompt, which other sequences may share: it is copied before the first token after it is written. */
  shared: PageBlock | undefined;
}

/** Arrays of attention scores and probabilities that exist at once. */
const scoreCopies = 3;

/** Casts blocks: those of a sampler are always made by its own sequences, so here they are pages. */
const inPages = (blocks: readonly KvBlock[]): readonly PageBlock[] => blocks as readonly PageBlock[];

const roundDown = (tokens: number): number => Math.max(pageTokens, Math.floor(tokens / pageTokens) * pageTokens);

/** Indices of items by their adapter. */
const byAdapter = (
  items: readonly { readonly adapter: AdapterWeights | undefined }[],
): Map<AdapterWeights | undefined, number[]> => {
  const groups = new Map<AdapterWeights | undefined, number[]>();
  items.forEach(({ adapter }, index) => {
    const known = groups.get(adapter);
    if (known) known.push(index);
    else groups.set(adapter, [index]);
  });
  return groups;
};

/** Rows of logits copied to the host. */
const rowsGraph = (vocabSize: number): Graph => {
  const graph = new Graph();
  const rows = graph.input("rows", ["asked"], { dtype: "int32" });
  graph.output("logits", gather(graph, graph.input("all", ["rows", vocabSize]), rows));
  return graph;
};

class PagedSequences implements Sequences {
  readonly draws = true;
  readonly isBounded = true;
  readonly #model: LoadedModel;
  readonly #device: Device;
  readonly #adapters: DeviceAdapters;
  readonly #ownsAdapters: boolean;
  readonly #pool: PagePool;
  readonly #tables: ResidentTables;
  readonly #rope: RopeCache;
  readonly #programs = createProgramCache<DeviceProgram>();
  readonly #sequences: Sequence[] = [];
  /** Pages allocated by the prefill in progress. */
  readonly #fresh = new Set<number>();
  readonly #drawTables: Readonly<Record<string, Value>>;
  #mostTokens: number;

  constructor(model: LoadedModel, device: Device, options: PagedSequencesOptions) {
    const { config } = model;
    this.#model = model;
    this.#device = device;
    this.#ownsAdapters = options.adapters === undefined;
    this.#adapters = options.adapters ?? new DeviceAdapters(config, device);
    this.#tables = new ResidentTables(device);
    this.#rope = new RopeCache(config);
    this.#drawTables = drawTables(config.vocabSize);
    const perToken = scoreCopies * 4 * config.heads * options.contextLength;
    const fitting = (options.activationBytes ?? Number.POSITIVE_INFINITY) / perToken;
    this.#mostTokens = roundDown(Math.min(device.plan.promptTokens, fitting));
    this.#pool = new PagePool(config, device, {
      bytes: options.cacheBytes,
      reclaim: (bytes) => this.#usedPages(options.reclaim(bytes)),
    });
  }

  *#usedPages(blocks: Iterable<KvBlock>): Iterable<number> {
    for (const block of blocks) yield (block as PageBlock).page;
    for (const { pages } of this.#sequences) yield* pages;
    yield* this.#fresh;
  }

  get mostPromptTokens(): number {
    return this.#mostTokens;
  }

  get #mostOfRun(): PrefillRunner["most"] {
    const scored = roundDown(Math.floor(scoredLogits / this.#model.config.vocabSize));
    return { plain: this.#mostTokens, scored: Math.min(this.#mostTokens, scored) };
  }

  get bytes(): number {
    return this.#sequences.reduce((sum, { pages }) => sum + pages.length, 0) * pageBytes(this.#model.config);
  }

  bytesFor(sequences: number, length: number): number {
    return sequences * (pagesOf(length) + 1) * pageBytes(this.#model.config); // one more, while the last page of a prompt is copied
  }

  // ---- sequences

  adopt(blocks: readonly KvBlock[]): void {
    const own = inPages(blocks);
    const last = own.at(-1);
    this.#sequences.push({
      pages: own.map(({ page }) => page),
      length: lengthOf(own),
      shared: last && last.length < pageTokens ? last : undefined,
    });
  }

  remove(row: number): void {
    const last = this.#sequences.pop()!;
    if (row < this.#sequences.length) this.#sequences[row] = last;
  }

  clear(): void {
    this.#sequences.length = 0;
  }

  /** Gives a sequence a page of its own for its next token. */
  async #makeRoom(sequence: Sequence): Promise<void> {
    if (sequence.shared) {
      sequence.pages[sequence.pages.length - 1] = await this.#pool.copy(sequence.shared);
      sequence.shared = undefined;
    }
    if (sequence.length === sequence.pages.length * pageTokens) sequence.pages.push(...(await this.#pool.take(1)));
  }

  // ---- decoding

  async decode(rows: readonly DecodeRow[]): Promise<readonly Decoded[]> {
    const results: Decoded[] = [];
    for (const row of byAdapter(rows)) {
      const [adapter, all] = row;
      const active = all.filter((index) => !rows[index]!.isHeld);
      if (active.length === 0) continue;
      const decoded = await this.#decodeGroup(
        adapter,
        active.map((index) => ({ row: rows[index]!, sequence: this.#sequences[index]! })),
      );
      active.forEach((index, place) => {
        results[index] = decoded[place]!;
      });
    }
    return results;
  }

  async #decodeGroup(
    adapter: AdapterWeights | undefined,
    members: readonly { readonly row: DecodeRow; readonly sequence: Sequence }[],
  ): Promise<Decoded[]> {
    const { vocabSize } = this.#model.config;
    const draws = members.map(({ row }) => row.draw);
    const top = Math.max(0, ...draws.map((draw) => draw?.top ?? 0));
    const filtered = draws.some((draw) => draw && !draw.greedy && isFiltered(draw.choice));
    const isDrawn = draws.some((draw) => draw !== undefined);
    for (const { sequence } of members) await this.#makeRoom(sequence);
    const count = members.length;
    const lengths = members.map(({ sequence }) => sequence.length);
    const longest = Math.max(...members.map(({ sequence }) => sequence.pages.length));
    const pages = new Int32Array(count * longest);
    const { rowsPerToken } = this.#pool;
    const written = new Int32Array(count * rowsPerToken);
    members.forEach(({ sequence }, index) => {
      // Padding is masked: any page with finite contents is valid.
      for (let i = 0; i < longest; i++) pages[index * longest + i] = sequence.pages[i] ?? sequence.pages[0]!;
      const { length } = sequence;
      const first = this.#pool.rowOf(sequence.pages[Math.floor(length / pageTokens)]!, length % pageTokens);
      for (let row = 0; row < rowsPerToken; row++) written[index * rowsPerToken + row] = first + row;
    });
    const drawn = members.map(({ row }) => ({ ...(row.draw ?? noDraw), coldness: row.coldness }));
    const outputs = await this.#run(
      { decode: true, draw: isDrawn ? (filtered ? "filtered" : "plain") : undefined, top: top > 0 },
      {
        adapter,
        positions: Math.max(...lengths) + 1,
        pageCount: longest,
        inputs: {
          tokens: i32(
            Int32Array.from(members, ({ row }) => row.token),
            [count],
          ),
          position_ids: i32(Int32Array.from(lengths), [count, 1]),
          "written.rows": i32(written, [written.length, 1]),
          pages: i32(pages, [count, longest, 1]),
          "query.positions": f32(Float32Array.from(lengths), [count, 1, 1, 1]),
          rows: i32(Int32Array.from(members.keys()), [count]),
          ...(isDrawn ? drawRows(drawn, vocabSize, filtered) : {}),
          ...(top > 0 ? { "top.k": i32(Int32Array.of(top), [1]) } : {}),
        },
      },
    );
    for (const { sequence } of members) sequence.length++;
    const floats = (name: string): Float32Array => outputs.values[name]!.data as Float32Array;
    const logSumExp = this.#logSumExp(outputs, "largest");
    const isKnown = (index: number): boolean => draws[index] !== undefined && floats("complete")[index]! > 0;
    const asked = members.flatMap(({ row }, index) => (isKnown(index) ? [] : [{ row: index, coldness: row.coldness }]));
    const distributions = await this.#fetchRows(outputs, asked, logSumExp);
    return members.map((_, index): Decoded => {
      if (!isKnown(index)) return { distribution: distributions.get(index)! };
      const logprobOf = (logit: number): number => Math.min(0, logit - logSumExp[index]!);
      const { top: own } = draws[index] as DrawOptions;
      const listed = Array.from({ length: own }, (__, i) => {
        const at = index * top + i;
        return [outputs.values["top.ids"]!.data[at] as number, logprobOf(floats("top.logits")[at]!)] as const;
      });
      return {
        drawn: { token: floats("token")[index]!, logprob: logprobOf(floats("logit")[index]!), top: listed },
      };
    });
  }

  // ---- prompts

  async prefill(jobs: readonly PrefillJob[]): Promise<readonly Prefilled[] | undefined> {
    for (const { adapter } of jobs) {
      if (adapter && !(await this.#adapters.version(adapter)).isFinite) {
        throw new InputError("adapter", "has weights that are not finite", { code: "not_finite" });
      }
    }
    const runner: PrefillRunner = {
      most: this.#mostOfRun,
      prefill: (run) => this.#prefillRun(run),
      recut: (blocks) => blocks, // a prompt is computed page by page
    };
    try {
      return await prefill(runner, jobs);
    } finally {
      this.#fresh.clear(); // the caller references them from now on
    }
  }

  async #prefillRun(run: PrefillRun): Promise<PrefillResult> {
    const { pieces, scored } = run;
    const starts = startsOf(pieces);
    const blocks = await this.#takeBlocks(pieces);
    const distributions = new Map<number, Distribution>();
    let scores: PrefillResult["scored"];
    for (const [adapter, members] of byAdapter(pieces)) {
      const isOf = (row: number): number =>
        members.findIndex((piece) => row >= starts[piece]! && row < starts[piece]! + pieces[piece]!.tokens.length);
      const wanted = [...run.rows.keys()].filter((index) => isOf(run.rows[index]!) >= 0);
      const offsets = startsOf(members.map((piece) => pieces[piece]!));
      const outputs = await this.#runPieces(
        members.map((piece) => ({ ...pieces[piece]!, made: blocks[piece]! })),
        {
          adapter,
          // At least one row, because some providers fail on empty tensors; its result is not read.
          rows:
            wanted.length === 0
              ? [0]
              : wanted.map((index) => {
                  const place = isOf(run.rows[index]!);
                  return offsets[place]! + run.rows[index]! - starts[members[place]!]!;
                }),
          scored,
        },
      );
      const logSumExp = this.#logSumExp(outputs, "largest");
      const asked = wanted.map((index, row) => ({ row, coldness: run.coldness[index]! }));
      const fetched = await this.#fetchRows(outputs, asked, logSumExp);
      wanted.forEach((index, row) => {
        distributions.set(index, fetched.get(row)!);
      });
      if (scored) scores = scoresOf(outputs, this.#logSumExp(outputs, "scored.largest"));
    }
    return {
      take: (piece) => blocks[piece]!,
      distribution: (row) => distributions.get(row)!,
      ...(scores ? { scored: scores } : {}),
    };
  }

  /** Allocates a page for every `pageTokens` new tokens. */
  async #takeBlocks(pieces: PrefillRun["pieces"]): Promise<PageBlock[][]> {
    const counts = pieces.map(({ tokens }) => pagesOf(tokens.length));
    const pages = await this.#pool.take(counts.reduce((sum, count) => sum + count, 0));
    for (const page of pages) this.#fresh.add(page);
    const byteLength = pageBytes(this.#model.config);
    let at = 0;
    return pieces.map(({ tokens }, piece) =>
      Array.from({ length: counts[piece]! }, (_, index) => ({
        page: pages[at++]!,
        length: Math.min(pageTokens, tokens.length - index * pageTokens),
        byteLength,
      })),
    );
  }

  #runPieces(
    pieces: readonly (PrefillRun["pieces"][number] & { readonly made: readonly PageBlock[] })[],
    {
      adapter,
      rows,
      scored,
    }: {
      readonly adapter: AdapterWeights | undefined;
      readonly rows: readonly number[];
      readonly scored: PrefillRun["scored"] | undefined;
    },
  ): Promise<DeviceOutputs> {
    const { heads, kvHeads } = this.#model.config;
    const starts = startsOf(pieces);
    const count = pieces.reduce((sum, { tokens }) => sum + tokens.length, 0);
    const batch = pieces.length;
    const queries = Math.max(...pieces.map(({ tokens }) => tokens.length));
    const pasts = pieces.map(({ past }) => lengthOf(past));
    const tables = pieces.map(({ past, made }) => [...inPages(past), ...made].map(({ page }) => page));
    const longest = Math.max(...tables.map(({ length }) => length));
    const share = heads / kvHeads;
    const tokens = new Int32Array(count);
    const positions = new Int32Array(count);
    const { rowsPerToken } = this.#pool;
    const written = new Int32Array(count * rowsPerToken);
    const unpack = new Int32Array(count * heads);
    const q = new Int32Array(batch * heads * queries);
    const reach = new Float32Array(batch * share * queries);
    const pages = new Int32Array(batch * longest);
    pieces.forEach((piece, b) => {
      const [start, past, table, { length }] = [starts[b]!, pasts[b]!, tables[b]!, piece.tokens];
      tokens.set(piece.tokens, start);
      for (let i = 0; i < longest; i++) pages[b * longest + i] = table[i] ?? table[0]!;
      for (let t = 0; t < length; t++) {
        const position = past + t;
        positions[start + t] = position;
        const first = this.#pool.rowOf(table[Math.floor(position / pageTokens)]!, position % pageTokens);
        for (let row = 0; row < rowsPerToken; row++) written[(start + t) * rowsPerToken + row] = first + row;
        for (let head = 0; head < heads; head++) unpack[(start + t) * heads + head] = (b * heads + head) * queries + t;
      }
      for (let t = 0; t < queries; t++) {
        const own = Math.min(t, length - 1); // padding repeats the last token
        for (let head = 0; head < heads; head++) q[(b * heads + head) * queries + t] = (start + own) * heads + head;
        for (let i = 0; i < share; i++) reach[(b * share + i) * queries + t] = past + own;
      }
    });
    return this.#run(
      { decode: false, prompt: scored !== undefined },
      {
        adapter,
        positions: Math.max(...pieces.map((piece, b) => pasts[b]! + piece.tokens.length)),
        pageCount: longest,
        inputs: {
          tokens: i32(tokens, [count]),
          position_ids: i32(positions, [count, 1]),
          "written.rows": i32(written, [written.length, 1]),
          pages: i32(pages, [batch, longest, 1]),
          "query.positions": f32(reach, [batch, 1, share * queries, 1]),
          "index.q": i32(q, [batch, kvHeads, share * queries]),
          "unpack.q": i32(unpack, [unpack.length]),
          rows: i32(Int32Array.from(rows), [rows.length]),
          ...(scored
            ? {
                "scored.rows": i32(scored.rows, [scored.rows.length]),
                "scored.targets": i32(scored.targets, [scored.targets.length, 1]),
                "scored.k": i32(Int32Array.of(Math.max(1, scored.k)), [1]),
              }
            : {}),
        },
      },
    );
  }

  // ---- runs

  async #run(
    key: Omit<PageKey, "targets">,
    {
      adapter,
      positions,
      pageCount,
      inputs,
    }: {
      readonly adapter: AdapterWeights | undefined;
      /** Length of the longest sequence. */
      readonly positions: number;
      /** Pages of each sequence. */
      readonly pageCount: number;
      readonly inputs: Readonly<Record<string, Value>>;
    },
  ): Promise<DeviceOutputs> {
    const { config, weights } = this.#model;
    const targets = adapter?.layout.targets;
    const { decode, draw, top, prompt } = key;
    const program = await this.#programs.get([targets, decode, draw, top, prompt], () => {
      const graph = pageGraph(config, { ...key, targets });
      return this.#device.compile(graph, weights, { resident: ["logits", ...nextNames(config)] });
    });
    const tables = this.#rope.tables(positions);
    const given: Record<string, RunInput> = {
      ...inputs,
      "page.positions": f32(
        Float32Array.from({ length: pageCount }, (_, page) => page * pageTokens),
        [1, pageCount, 1],
      ),
      cos: await this.#tables.get("cos", f32(tables.cos, tables.dims)),
      sin: await this.#tables.get("sin", f32(tables.sin, tables.dims)),
      ...(adapter ? await this.#adapters.samplingInputs(adapter) : {}),
    };
    if (draw)
      for (const [name, table] of Object.entries(this.#drawTables)) given[name] = await this.#tables.get(name, table);
    try {
      return await this.#pool.write({ program, inputs: given });
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** Log-sum-exp of the rows' logits, in double precision from two numbers per row. */
  #logSumExp({ values }: DeviceOutputs, prefix: string): Float64Array {
    const [logits, probabilities] = [values[`${prefix}.logit`]!.data, values[`${prefix}.probability`]!.data];
    const sums = Float64Array.from(
      logits as Float32Array,
      (logit, row) => logit - Math.log(probabilities[row] as number),
    );
    if (!sums.every(Number.isFinite)) this.#pool.noteNaN();
    return sums;
  }

  /** Distributions after some rows of a run; their logits are released. */
  async #fetchRows(
    { resident }: DeviceOutputs,
    asked: readonly { readonly row: number; readonly coldness: number }[],
    logSumExp: Float64Array,
  ): Promise<Map<number, Distribution>> {
    const logits = resident["logits"]!;
    try {
      if (asked.length === 0) return new Map();
      const { vocabSize } = this.#model.config;
      const program = await this.#programs.get("rows", () => this.#device.compile(rowsGraph(vocabSize), new Map()));
      const rows = i32(
        Int32Array.from(asked, ({ row }) => row),
        [asked.length],
      );
      const { values } = await program.runOnDevice({ all: logits, rows });
      const all = values["logits"]!.data as Float32Array;
      return new Map(
        asked.map(({ row, coldness }, index) => {
          const own = { logits: all.subarray(index * vocabSize, (index + 1) * vocabSize) };
          return [row, { ...shaped(own, plain, { counts: new Map(), coldness }), logSumExp: logSumExp[row]! }];
        }),
      );
    } finally {
      logits.release();
    }
  }

  /** After an out-of-memory failure, prefill runs are smaller from then on. */
  #explain(error: unknown): unknown {
    if (!(error instanceof DeviceError && error.code === "device_memory")) return error;
    this.#mostTokens = roundDown(this.#mostTokens / 2);
    const explained = new MemoryError(`a sampling run does not fit: ${error.message}`, {
      hint: "lower maxBatch or memoryBudgetBytes, or free memory on the device",
    });
    explained.cause = error;
    return explained;
  }

  forgetAdapters(): void {
    // The trainer owns them as well.
  }

  async dispose(): Promise<void> {
    this.#sequences.length = 0;
    await this.#programs.dispose();
    await this.#pool.dispose();
    this.#tables.release();
    if (this.#ownsAdapters) await this.#adapters.dispose();
  }
}

/** Draw inputs of a row whose token the host draws. */
const noDraw: DrawOptions = { greedy: true, choice: { topK: -1, topP: 1 }, random: 0, top: 0 };

const nextNames = ({ layers }: ModelConfig): string[] => {
  const names: string[] = [];
  forEachSide(layers, (layer, side) => names.push(pageNames(layer, side).next));
  return names;
};

/** Log-probs of targets and of the most likely tokens of scored rows. */
const scoresOf = ({ values }: DeviceOutputs, logSumExp: Float64Array): NonNullable<PrefillResult["scored"]> => {
  const [logits, top] = [values["scored.logits"]!.data, values["scored.top"]!.data] as [Float32Array, Float32Array];
  const k = top.length / logits.length;
  return {
    logprobs: Float32Array.from(logSumExp, (sum, row) => Math.min(0, logits[row]! - sum)),
    top: Float32Array.from(top, (logit, i) => logit - logSumExp[Math.floor(i / k)]!),
    topIds: values["scored.topIds"]!.data as Int32Array,
  };
};

export const createPagedSequences = (model: LoadedModel, device: Device, options: PagedSequencesOptions): Sequences =>
  new PagedSequences(model, device, options);
