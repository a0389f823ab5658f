/**
 * Pages of keys and values on a device: one matrix per layer and side, with `pageTokens` tokens a page and the rows of `pageRows`, allocated
 * once and written in place. Pages have no reference counts: when no page is free, those that no block or sequence references are collected.
 */
import type { ModelConfig } from "@tinklet/models/config";
import { MemoryError } from "../../errors.ts";
import { Graph } from "../../graph/graph.ts";
import type { Device, DeviceProgram, DeviceValue, RunInput } from "../../runtime/device.ts";
import { f32, i32, type Value } from "../../runtime/runtime.ts";
import type { KvBlock } from "../kv-block.ts";
import { clearGraph, copyGraph, forEachSide, pageNames, pageRows, pageTokens } from "./page-graph.ts";

/** Consecutive tokens of a prompt, in one page. */
export interface PageBlock extends KvBlock {
  readonly page: number;
}

export const pageBytes = ({ layers, kvHeads, headDim }: ModelConfig): number =>
  2 * 4 * layers * kvHeads * headDim * pageTokens;

/** Number of pages for this many tokens. */
export const pagesOf = (tokens: number): number => Math.ceil(tokens / pageTokens);

export interface PagePoolOptions {
  /** Size of all pages in bytes. */
  readonly bytes: number;
  /** Evicts cached prompts of this many bytes and returns the pages that are still referenced. */
  readonly reclaim: (neededBytes: number) => Iterable<number>;
}

/** Page numbers in descending order: allocation pops from the end of the list, so page 0 is used first. */
const allPages = (count: number): number[] => Array.from({ length: count }, (_, page) => count - 1 - page);

/** Runs a program that writes to every layer's pages. */
interface PageWrite {
  readonly program: DeviceProgram;
  readonly inputs: Readonly<Record<string, RunInput>>;
}

export class PagePool {
  readonly count: number;
  /** Rows of a token's keys, and of its values, in the matrix of a layer. */
  readonly rowsPerToken: number;
  readonly #config: ModelConfig;
  readonly #device: Device;
  readonly #reclaim: PagePoolOptions["reclaim"];
  readonly #values: Record<string, DeviceValue> = {};
  #free: number[];
  #copy: Promise<DeviceProgram> | undefined;
  #clear: Promise<DeviceProgram> | undefined;
  #mayHoldNaN = false;

  constructor(config: ModelConfig, device: Device, { bytes, reclaim }: PagePoolOptions) {
    this.#config = config;
    this.#device = device;
    this.#reclaim = reclaim;
    this.rowsPerToken = pageRows(config).perToken;
    this.count = Math.floor(bytes / pageBytes(config));
    this.#free = allPages(this.count);
  }

  /** The matrices, allocated at the first use. */
  async #pages(): Promise<Readonly<Record<string, DeviceValue>>> {
    const { layers } = this.#config;
    const { width } = pageRows(this.#config);
    const slots = this.count * pageTokens * this.rowsPerToken;
    const names: string[] = [];
    forEachSide(layers, (layer, side) => names.push(pageNames(layer, side).pages));
    if (names.every((name) => this.#values[name])) return this.#values;
    const zeros = new Graph();
    const shape = [slots, width];
    zeros.output(
      "zeros",
      zeros.node("Expand", [zeros.constant(new Float32Array(1), [1, 1]), zeros.int64(shape)], shape),
    );
    const program = await this.#device.compile(zeros, new Map(), { resident: ["zeros"] });
    for (const name of names) this.#values[name] ??= (await program.runOnDevice({})).resident["zeros"]!;
    await program.dispose();
    return this.#values;
  }

  /**
   * Allocates pages with finite contents.
   * @throws MemoryError if too many are in use
   */
  async take(count: number): Promise<number[]> {
    const missing = (): number => Math.max(0, count - this.#free.length) * pageBytes(this.#config);
    for (const needed of [missing(), Number.POSITIVE_INFINITY]) {
      if (missing() === 0) break;
      const used = new Set(this.#reclaim(needed));
      this.#free = allPages(this.count).filter((page) => !used.has(page));
    }
    if (count > this.#free.length) {
      const size = pageBytes(this.#config);
      throw new MemoryError(
        `${count} pages of the cache are needed, and ${this.#free.length} of ${this.count} are free`,
        {
          neededBytes: count * size,
          budgetBytes: this.count * size,
          hint: "lower maxTokens or maxBatch, or raise the memory budget",
        },
      );
    }
    const taken = this.#free.splice(this.#free.length - count).reverse();
    if (this.#mayHoldNaN && taken.length > 0) await this.#clearPages(taken);
    return taken;
  }

  /** A run wrote a NaN or an infinity: from now on pages are cleared before they are reused, because 0 · NaN is NaN. */
  noteNaN(): void {
    this.#mayHoldNaN = true;
  }

  /** First row of a token's keys in the matrices. */
  rowOf(page: number, place: number): number {
    return (page * pageTokens + place) * this.rowsPerToken;
  }

  #rowsOf(page: number, tokens: number): Int32Array {
    const first = this.rowOf(page, 0);
    return Int32Array.from({ length: tokens * this.rowsPerToken }, (_, i) => first + i);
  }

  /** Copies the tokens to a new page. */
  async copy({ page, length }: PageBlock): Promise<number> {
    const [own] = (await this.take(1)) as [number];
    this.#copy ??= this.#compile(copyGraph(this.#config));
    const [from, to] = [this.#rowsOf(page, length), this.#rowsOf(own, length)];
    await this.write({
      program: await this.#copy,
      inputs: { from: i32(from, [from.length]), to: i32(to, [to.length, 1]) },
    });
    return own;
  }

  async #clearPages(pages: readonly number[]): Promise<void> {
    this.#clear ??= this.#compile(clearGraph(this.#config));
    const program = await this.#clear;
    const { width } = pageRows(this.#config);
    const zeros = new Float32Array(pageTokens * this.rowsPerToken * width);
    for (const page of pages) {
      const to = this.#rowsOf(page, pageTokens);
      const inputs: Record<string, Value> = {
        to: i32(to, [to.length, 1]),
        zeros: f32(zeros, [to.length, width]),
      };
      await this.write({ program, inputs });
    }
  }

  #compile(graph: Graph): Promise<DeviceProgram> {
    return this.#device.compile(graph, new Map(), { resident: [...graph.outputs.keys()] });
  }

  /** Runs a program that writes to the pages in place. */
  async write({ program, inputs }: PageWrite): ReturnType<DeviceProgram["runOnDevice"]> {
    const pages = await this.#pages();
    const into: Record<string, DeviceValue> = {};
    forEachSide(this.#config.layers, (layer, side) => {
      const names = pageNames(layer, side);
      into[names.next] = pages[names.pages]!;
    });
    return program.runOnDevice({ ...inputs, ...pages }, { into });
  }

  async dispose(): Promise<void> {
    for (const program of [this.#copy, this.#clear]) await (await program)?.dispose();
    for (const value of Object.values(this.#values)) value.release();
  }
}
