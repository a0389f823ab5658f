/**
 * Sends large arguments to the engine's thread in chunks. Posting a message copies its data on the caller's thread (300 MB take over 100
 * ms), so the arrays of a large argument are sent after their call, one chunk per turn of the caller's event loop. The call itself is sent
 * first and keeps its position in the queue until its arrays have arrived.
 */
import { yieldToEventLoop } from "./yield-to-event-loop.ts";

/** Bytes copied per turn: a few milliseconds. */
const chunkBytes = 2 * 2 ** 20;

/** Position of an array in a call's arguments, and its length. */
export interface ArrayPlace {
  readonly path: readonly (string | number)[];
  readonly length: number;
}

/** A chunk of one of a call's arrays. */
export interface ArrayChunk {
  readonly array: number;
  readonly from: number;
  readonly data: Float32Array<ArrayBuffer>;
}

interface DetachedArrays {
  /** The arguments without their arrays. */
  readonly args: readonly unknown[];
  readonly places: readonly ArrayPlace[];
  readonly arrays: readonly Float32Array[];
}

/** Separates the arguments from their arrays; undefined if they are small enough for one message. */
export function detachArrays(args: readonly unknown[]): DetachedArrays | undefined {
  const places: ArrayPlace[] = [];
  const arrays: Float32Array[] = [];
  const without = (value: unknown, path: readonly (string | number)[]): unknown => {
    if (value instanceof Float32Array) {
      places.push({ path, length: value.length });
      arrays.push(value);
      return undefined;
    }
    if (Array.isArray(value)) return value.map((inner, i) => without(inner, [...path, i]));
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, without(inner, [...path, key])]));
  };
  const rest = args.map((arg, i) => without(arg, [i]));
  const bytes = arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return bytes > chunkBytes ? { args: rest, places, arrays } : undefined;
}

/** Sends every array, one chunk per turn, until the call is cancelled. */
export async function sendChunks(
  arrays: readonly Float32Array[],
  send: (piece: ArrayChunk) => void,
  isWanted: () => boolean,
): Promise<void> {
  const step = chunkBytes / Float32Array.BYTES_PER_ELEMENT;
  for (const [array, values] of arrays.entries()) {
    for (let from = 0; from < values.length; from += step) {
      await yieldToEventLoop();
      if (!isWanted()) return;
      send({ array, from, data: new Float32Array(values.subarray(from, from + step)) });
    }
  }
}

/** The receiving side: arguments whose arrays are being transferred. */
export interface Assembly {
  readonly args: readonly unknown[];
  /** Resolves when every array is complete. */
  readonly whole: Promise<void>;
  take(piece: ArrayChunk): void;
  /** Rejects the promise: the transfer was cancelled. */
  fail(reason: unknown): void;
}

export function createAssembly(args: readonly unknown[], places: readonly ArrayPlace[]): Assembly {
  const arrays = places.map(({ path, length }) => {
    const array = new Float32Array(length);
    let holder = args as unknown as Record<string | number, unknown>;
    for (const key of path.slice(0, -1)) holder = holder[key] as typeof holder;
    holder[path.at(-1)!] = array;
    return array;
  });
  let missing = places.reduce((sum, { length }) => sum + length, 0);
  let [done, fail]: [() => void, (reason: unknown) => void] = [() => {}, () => {}];
  const whole = new Promise<void>((resolve, reject) => {
    [done, fail] = [resolve, reject];
  });
  whole.catch(() => {}); // avoids an unhandled rejection if no call awaits the arguments
  return {
    args,
    whole,
    fail,
    take: ({ array, from, data }) => {
      arrays[array]!.set(data, from);
      missing -= data.length;
      if (missing === 0) done();
    },
  };
}
