/**
 * The KV cache of the decoding sequences: per layer two arrays `[sequences, kvHeads, room, headDim]`, passed to the runtime without a copy.
 * Sequences occupy the first rows without gaps, so that the active ones are a prefix of the array. `room` is common to all and grows in
 * steps; positions beyond a sequence's length are masked.
 */
import type { ModelConfig } from "@tinklet/models/config";
import { type HostBlock, lengthOf, sideOffset } from "./kv-block.ts";

/** Step of `room` in tokens. Small, because all of it is read for every token; growing copies the cache. */
const roomStep = 32;

/** Input of a decoding step: sequences of different lengths, padded to `room` tokens. */
export interface Past {
  /** Tokens of each sequence, 0 for padding rows. */
  readonly lengths: readonly number[];
  readonly room: number;
  /** `[rows, kvHeads, 1, room, headDim]`; the axis of size 1 is for queries that share keys. */
  view(layer: number, side: "k" | "v"): { readonly data: Float32Array; readonly dims: readonly number[] };
}

export class KvCache {
  readonly #config: ModelConfig;
  readonly #layers: { k: Float32Array; v: Float32Array }[];
  /** Tokens stored, per sequence. */
  readonly lengths: number[] = [];
  readonly #beforeResize: (bytes: number) => void;
  #capacity = 0;
  #room = 0;

  /** @param beforeResize - called with the new size in bytes, so that other caches can free memory */
  constructor(config: ModelConfig, beforeResize: (bytes: number) => void = () => {}) {
    this.#config = config;
    this.#beforeResize = beforeResize;
    this.#layers = Array.from({ length: config.layers }, () => ({ k: new Float32Array(0), v: new Float32Array(0) }));
  }

  get room(): number {
    return this.#room;
  }

  get bytes(): number {
    return this.#layers.reduce((sum, { k, v }) => sum + k.byteLength + v.byteLength, 0);
  }

  /** Bytes for `sequences` with up to `length` tokens. */
  static bytesFor(config: ModelConfig, sequences: number, length: number): number {
    return 2 * 4 * config.layers * sequences * config.kvHeads * roundUp(length) * config.headDim;
  }

  /** Reallocates for this many sequences and tokens (or shrinks if far too large), keeping the contents. */
  #resize(capacity: number, room: number): void {
    const { kvHeads, headDim } = this.#config;
    if (capacity === this.#capacity && room === this.#room) return;
    this.#beforeResize(8 * this.#layers.length * capacity * kvHeads * room * headDim);
    for (const layer of this.#layers) {
      for (const side of ["k", "v"] as const) {
        const old = layer[side];
        const next = new Float32Array(capacity * kvHeads * room * headDim);
        this.lengths.forEach((length, sequence) => {
          const from = { data: old, room: this.#room, start: sequence * kvHeads * this.#room * headDim };
          this.#copy(from, { data: next, room, start: sequence * kvHeads * room * headDim }, length);
        });
        layer[side] = next;
      }
    }
    this.#capacity = capacity;
    this.#room = room;
  }

  /** Copies `length` tokens of a sequence; `start` is the offset of the first head. */
  #copy(from: Lines, to: Lines, length: number): void {
    const { kvHeads, headDim } = this.#config;
    for (let head = 0; head < kvHeads; head++) {
      const start = from.start + head * from.room * headDim;
      to.data.set(from.data.subarray(start, start + length * headDim), to.start + head * to.room * headDim);
    }
  }

  /** Resizes so that every sequence can grow by `extra` tokens, and at least `rows` rows exist. */
  prepare(extra: number, rows: number): void {
    const needed = roundUp(Math.max(1, ...this.lengths) + extra);
    // Growing ahead makes copies rare; shrinks only when most of it is unused.
    const room =
      needed > this.#room
        ? Math.max(needed, roundUp(this.#room * 1.125))
        : needed * 2 < this.#room
          ? needed
          : this.#room;
    this.#resize(this.#capacityFor(rows, room), room);
  }

  /**
   * Number of rows to allocate when `rows` with this much room are needed. Includes spare rows, because sequences start one by one and
   * growing copies all of them; but rows left by many short sequences are not kept when a few long ones need more room.
   */
  #capacityFor(rows: number, room: number): number {
    const held = this.#capacity;
    if (rows > held) return Math.max(rows, Math.min(held * 2, held + 32));
    return room > this.#room ? rows : held;
  }

  /** Adds a sequence whose tokens are those of blocks. Returns its row. */
  adopt(blocks: readonly HostBlock[]): number {
    const { kvHeads, headDim } = this.#config;
    const length = lengthOf(blocks);
    const row = this.lengths.length;
    this.#makeRoomFor(length, row + 1);
    const size = kvHeads * this.#room * headDim;
    this.#layers.forEach((stored, layer) => {
      for (const side of ["k", "v"] as const) {
        // Masked positions are multiplied by 0, and 0 · NaN is NaN: clear what an earlier sequence left after the new one.
        for (let line = row * size; line < (row + 1) * size; line += this.#room * headDim) {
          stored[side].fill(0, line + length * headDim, line + this.#room * headDim);
        }
        let at = 0;
        for (const block of blocks) {
          const from = {
            data: block.data,
            room: block.length,
            start: sideOffset(this.#config, block, { layer, side }),
          };
          this.#copy(from, { data: stored[side], room: this.#room, start: row * size + at * headDim }, block.length);
          at += block.length;
        }
      }
    });
    this.lengths.push(length);
    return row;
  }

  #makeRoomFor(length: number, rows: number): void {
    const room = Math.max(this.#room, roundUp(length + 1));
    this.#resize(this.#capacityFor(rows, room), room);
  }

  /** Removes all sequences and frees the memory. */
  clear(): void {
    for (const layer of this.#layers) {
      layer.k = new Float32Array(0);
      layer.v = new Float32Array(0);
    }
    this.#capacity = 0;
    this.#room = 0;
    this.lengths.length = 0;
  }

  /** Frees a row; the last row moves to its index. */
  remove(row: number): void {
    const { kvHeads, headDim } = this.#config;
    const last = this.lengths.length - 1;
    if (row !== last) {
      const size = kvHeads * this.#room * headDim;
      for (const { k, v } of this.#layers) {
        k.copyWithin(row * size, last * size, (last + 1) * size);
        v.copyWithin(row * size, last * size, (last + 1) * size);
      }
      this.lengths[row] = this.lengths[last]!;
    }
    this.lengths.pop();
  }

  /** The first `rows` rows, as inputs of a run. */
  past(rows: number): Past {
    const { kvHeads, headDim } = this.#config;
    const room = this.#room;
    const size = rows * kvHeads * room * headDim;
    return {
      lengths: this.lengths,
      room,
      view: (layer, side) => ({
        data: this.#layers[layer]![side].subarray(0, size),
        dims: [rows, kvHeads, 1, room, headDim],
      }),
    };
  }

  /**
   * Stores `time` new tokens of every sequence, `[rows, kvHeads, time, headDim]`; rows beyond the sequences are ignored.
   *
   * @param isHeld - whether a row got no token in this step
   */
  append(
    time: number,
    fresh: (layer: number, side: "k" | "v") => Float32Array,
    isHeld: (row: number) => boolean = () => false,
  ): void {
    const { kvHeads, headDim } = this.#config;
    const run = time * headDim;
    this.#layers.forEach((stored, layer) => {
      for (const side of ["k", "v"] as const) {
        const [from, to] = [fresh(layer, side), stored[side]];
        this.lengths.forEach((length, sequence) => {
          if (isHeld(sequence)) return;
          for (let head = sequence * kvHeads; head < (sequence + 1) * kvHeads; head++) {
            const [start, end] = [head * run, (head * this.#room + length) * headDim];
            for (let i = 0; i < run; i++) to[end + i] = from[start + i]!;
          }
        });
      }
    });
    for (let i = 0; i < this.lengths.length; i++) if (!isHeld(i)) this.lengths[i]! += time;
  }
}

const roundUp = (length: number): number => Math.ceil(length / roomStep) * roomStep;

/** Lines of each head in an array with this much room, and the offset of the first. */
interface Lines {
  readonly data: Float32Array;
  readonly room: number;
  readonly start: number;
}
