/**
 * Packs sequences of any lengths into one run: a concatenated token axis without padding, and a few rectangles for attention chosen for
 * little padding. Index arithmetic only; the graph is `model/attention.ts`.
 */
import type { ModelConfig } from "@tinklet/models/config";
import { masked } from "../model/attention.ts";
import { f32, i32, type Value } from "../runtime/runtime.ts";
import { partition } from "./partition.ts";

/**
 * Possible numbers of rectangles of a program; a run uses the smallest sufficient number and fills the other rectangles with a dummy token.
 */
export const groupCounts = [1, 2, 4] as const;

/** Sequences (by index) in one rectangle, whose length is that of the longest. */
export interface Rectangle {
  readonly members: readonly number[];
  readonly time: number;
}

/**
 * Divides sequences into at most `limit` rectangles with the least attention work, Σ batch · time². With lengths sorted, a rectangle is a
 * range of neighbours.
 */
export const planRectangles = (lengths: readonly number[], limit: number): Rectangle[] => {
  const order = lengths.map((_, index) => index).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const timeOf = (place: number): number => lengths[order[place]!]!;
  const ends = partition(order.length, { limit, work: (start, end) => (end - start) * timeOf(start) ** 2 });
  return ends.map((end, index) => {
    const start = ends[index - 1] ?? 0;
    return { members: order.slice(start, end), time: timeOf(start) };
  });
};

/** Size limit of cached masks in bytes. Masks of all lengths up to 280 fit together; one of 4,096 (67 MB) is never cached. */
const keptMaskBytes = 32e6;
const masks = new Map<number, Float32Array>();
let maskBytes = 0;
/** Causal mask `[time, time]`, cached (least recently used first out) within the size limit. */
const causalMask = (time: number): Float32Array => {
  let mask = masks.get(time);
  if (mask) {
    masks.delete(time); // moves it to the end: most recently used
    masks.set(time, mask);
    return mask;
  }
  mask = new Float32Array(time * time);
  for (let query = 0; query < time; query++) mask.fill(masked, query * time + query + 1, (query + 1) * time);
  if (mask.byteLength > keptMaskBytes) return mask;
  masks.set(time, mask);
  maskBytes += mask.byteLength;
  for (const [oldest, { byteLength }] of masks) {
    if (maskBytes <= keptMaskBytes) break;
    masks.delete(oldest);
    maskBytes -= byteLength;
  }
  return mask;
};

/** Inputs of a program for a packed batch. */
export interface PackedBatch {
  readonly tokenCount: number;
  /** First packed row of each sequence, in the given order. */
  readonly starts: readonly number[];
  /** One of groupCounts. */
  readonly groupCount: number;
  readonly longest: number;
  /** All inputs that `packedInputs` declares, except the rotary tables. */
  readonly inputs: Record<string, Value>;
}

/** Concatenates sequences in the given order. */
export const packSequences = (config: ModelConfig, sequences: readonly Int32Array[]): PackedBatch => {
  const { heads, kvHeads } = config;
  const starts: number[] = [];
  let tokenCount = 0;
  for (const sequence of sequences) {
    starts.push(tokenCount);
    tokenCount += sequence.length;
  }
  const tokens = new Int32Array(tokenCount);
  sequences.forEach((sequence, index) => {
    tokens.set(sequence, starts[index]!);
  });
  const rectangles = planRectangles(
    sequences.map((sequence) => sequence.length),
    groupCounts.at(-1)!,
  );
  const groupCount = groupCounts.find((size) => size >= rectangles.length)!;
  const inputs: Record<string, Value> = { tokens: i32(tokens, [tokenCount]) };
  const unpack = { q: new Int32Array(tokenCount * heads), kv: new Int32Array(tokenCount * kvHeads) };
  const base = { q: 0, kv: 0 };

  for (let index = 0; index < groupCount; index++) {
    const rectangle = rectangles[index];
    const time = rectangle?.time ?? 1;
    const batch = rectangle?.members.length ?? 1;
    const positions = new Int32Array(batch * time);
    const valid = new Float32Array(batch * time);
    const gather = { q: new Int32Array(batch * heads * time), kv: new Int32Array(batch * kvHeads * time) };
    rectangle?.members.forEach((member, row) => {
      const [start, length] = [starts[member]!, sequences[member]!.length];
      for (let t = 0; t < length; t++) {
        positions[row * time + t] = t;
        valid[row * time + t] = 1;
      }
      for (const [side, count] of [
        ["q", heads],
        ["kv", kvHeads],
      ] as const) {
        for (let head = 0; head < count; head++) {
          const line = (row * count + head) * time;
          for (let t = 0; t < time; t++) gather[side][line + t] = (start + Math.min(t, length - 1)) * count + head;
          for (let t = 0; t < length; t++) unpack[side][(start + t) * count + head] = base[side] + line + t;
        }
      }
    });
    base.q += batch * heads * time;
    base.kv += batch * kvHeads * time;
    inputs[`group${index}.q`] = i32(gather.q, [batch, heads, time]);
    inputs[`group${index}.kv`] = i32(gather.kv, [batch, kvHeads, time]);
    inputs[`group${index}.positions`] = i32(positions, [batch, time]);
    inputs[`group${index}.mask`] = f32(causalMask(time), [time, time]);
    inputs[`group${index}.valid`] = f32(valid, [batch, 1, time, 1]);
  }
  inputs["unpack.q"] = i32(unpack.q, [unpack.q.length]);
  inputs["unpack.kv"] = i32(unpack.kv, [unpack.kv.length]);
  const longest = Math.max(...sequences.map((sequence) => sequence.length));
  return { tokenCount, starts, groupCount, longest, inputs };
};

/**
 * Divides sequences into runs of at most `maxTokens` tokens (a longer sequence runs alone). Sorted by length, so that a run's lengths are
 * similar; depends only on the lengths, never on timing.
 */
export const planRuns = (lengths: readonly number[], maxTokens: number): number[][] => {
  const order = lengths.map((_, index) => index).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const runs: { members: number[]; tokens: number }[] = [];
  for (const index of order) {
    const length = lengths[index]!;
    const room = runs.find((run) => run.tokens + length <= maxTokens);
    if (room) {
      room.members.push(index);
      room.tokens += length;
    } else runs.push({ members: [index], tokens: length });
  }
  return runs.map((run) => run.members.sort((a, b) => a - b));
};
