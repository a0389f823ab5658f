/**
 * Keys and values of the sequences being decoded: per layer one array `[sequences, kvHeads, room, headDim]`, handed to the runtime
 * as it is. Sequences occupy the first rows without gaps, so that any number of them is a prefix of the array. `room` is common to
 * all and grows in steps; what lies behind a sequence's length is masked off.
 */
import type { ModelConfig } from "../model/config.ts";

const STEP = 64;
/** Masked positions behind the longest sequence. With at least this many, vectorised sums handle all that counts in full vectors,
 * so that a sequence's result does not depend on the room its neighbours need, not even in the last bit. */
const SLACK = 64;

export class KvCache {
  readonly #config: ModelConfig;
  readonly #layers: { k: Float32Array; v: Float32Array }[];
  /** Tokens stored, per sequence. */
  readonly lengths: number[] = [];
  #capacity = 0;
  #room = 0;

  constructor(config: ModelConfig) {
    this.#config = config;
    this.#layers = Array.from({ length: config.layers }, () => ({ k: new Float32Array(0), v: new Float32Array(0) }));
  }

  get room(): number {
    return this.#room;
  }

  get bytes(): number {
    return this.#layers.reduce((sum, { k, v }) => sum + k.byteLength + v.byteLength, 0);
  }

  /** Bytes that `sequences` with up to `length` tokens take. */
  static bytesFor(config: ModelConfig, sequences: number, length: number): number {
    return 2 * 4 * config.layers * sequences * config.kvHeads * roomFor(length) * config.headDim;
  }

  /** Makes room for more sequences or tokens (or gives back what is far too much), keeping what is stored. */
  #resize(capacity: number, room: number): void {
    const { kvHeads, headDim } = this.#config;
    if (capacity === this.#capacity && room === this.#room) return;
    for (const layer of this.#layers) {
      for (const side of ["k", "v"] as const) {
        const old = layer[side];
        const next = new Float32Array(capacity * kvHeads * room * headDim);
        this.lengths.forEach((length, sequence) => {
          for (let head = 0; head < kvHeads; head++) {
            const line = sequence * kvHeads + head;
            const from = line * this.#room * headDim;
            next.set(old.subarray(from, from + length * headDim), line * room * headDim);
          }
        });
        layer[side] = next;
      }
    }
    this.#capacity = capacity;
    this.#room = room;
  }

  /** Adjusts the room so that every sequence can take `extra` more tokens, and at least `rows` rows exist. */
  prepare(extra: number, rows: number): void {
    const needed = roomFor(Math.max(0, ...this.lengths) + extra);
    // Grow a little ahead, so that copying is rare; shrink only when most of it is unused.
    const room =
      needed > this.#room
        ? Math.max(needed, roundUp(this.#room * 1.25))
        : needed * 2 < this.#room
          ? needed
          : this.#room;
    const capacity = rows > this.#capacity ? Math.max(rows, Math.min(32, this.#capacity * 2)) : this.#capacity;
    this.#resize(capacity, room);
  }

  /** Adds a sequence whose tokens are those of another cache's only sequence. Returns its row. */
  adopt(source: KvCache): number {
    const { kvHeads, headDim } = this.#config;
    const length = source.lengths[0]!;
    const row = this.lengths.length;
    this.lengths.push(0);
    this.#makeRoomFor(length, row + 1);
    this.#layers.forEach((layer, index) => {
      for (const side of ["k", "v"] as const) {
        for (let head = 0; head < kvHeads; head++) {
          const from = head * source.#room * headDim;
          const line = source.#layers[index]![side].subarray(from, from + length * headDim);
          layer[side].set(line, (row * kvHeads + head) * this.#room * headDim);
        }
      }
    });
    this.lengths[row] = length;
    return row;
  }

  #makeRoomFor(length: number, rows: number): void {
    const room = Math.max(this.#room, roomFor(length + 1));
    this.#resize(Math.max(this.#capacity, rows), room);
  }

  /** An empty row. */
  addEmpty(): void {
    this.lengths.push(0);
    this.#makeRoomFor(0, this.lengths.length);
  }

  /** Frees a row; the last row moves into it. */
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

  get isEmpty(): boolean {
    return this.lengths.every((length) => length === 0);
  }

  /** The first `rows` rows of a layer, as the runtime reads them; `room` may differ from the cache's only while it is empty. */
  view(layer: number, side: "k" | "v", rows: number, room: number): { data: Float32Array; dims: number[] } {
    const { kvHeads, headDim } = this.#config;
    const size = rows * kvHeads * room * headDim;
    return { data: this.#layers[layer]![side].subarray(0, size), dims: [rows, kvHeads, room, headDim] };
  }

  /** Stores `time` new tokens of every sequence: values are `[rows, kvHeads, time, headDim]`, rows beyond the sequences are ignored. */
  append(time: number, fresh: (layer: number, side: "k" | "v") => Float32Array): void {
    const { kvHeads, headDim } = this.#config;
    const run = time * headDim;
    this.#layers.forEach((layer, index) => {
      for (const side of ["k", "v"] as const) {
        const source = fresh(index, side);
        const target = layer[side];
        this.lengths.forEach((length, sequence) => {
          for (let head = 0; head < kvHeads; head++) {
            const line = sequence * kvHeads + head;
            const to = (line * this.#room + length) * headDim;
            for (let i = 0; i < run; i++) target[to + i] = source[line * run + i]!;
          }
        });
      }
    });
    for (let i = 0; i < this.lengths.length; i++) this.lengths[i]! += time;
  }
}

const roundUp = (length: number): number => Math.ceil(length / STEP) * STEP;
const roomFor = (length: number): number => roundUp(length + SLACK);
