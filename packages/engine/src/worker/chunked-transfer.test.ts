/** Chunked transfer of large arguments: complete, one chunk per turn of the event loop, and the call keeps its position. */
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { expect, it, vi } from "vitest";
import { openEngine } from "../engine.ts";
import { writeTinyModel } from "../testing/tiny-model.ts";
import { type ArrayChunk, createAssembly, detachArrays, sendChunks } from "./chunked-transfer.ts";

const megabytes = (count: number): Float32Array => Float32Array.from({ length: count * 2 ** 18 }, (_, i) => i);

/** Arrays as digests: comparing millions of values one by one takes almost a minute. */
function digested(value: unknown): unknown {
  if (value instanceof Float32Array) return createHash("sha256").update(value).digest("hex");
  if (Array.isArray(value)) return value.map(digested);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, digested(inner)]));
}

it("sends small arguments as they are", () => {
  expect(detachArrays(["adapter-1", { weights: { a: { data: megabytes(2), shape: [1] } } }])).toBeUndefined();
});

it("puts together what it took apart, and copies one piece a turn", async () => {
  const state = {
    step: 3,
    weights: { a: { data: megabytes(9), shape: [2, 5] }, b: { data: new Float32Array(0), shape: [0] } },
    optimizer: { m: { a: megabytes(2) } },
  };
  const apart = detachArrays(["adapter-1", state])!;
  expect(JSON.stringify(apart.args)).toBe(
    '["adapter-1",{"step":3,"weights":{"a":{"shape":[2,5]},"b":{"shape":[0]}},"optimizer":{"m":{}}}]',
  );
  const assembly = createAssembly(structuredClone(apart.args), apart.places);
  let turn = 0;
  const count = (): void => {
    turn++;
    ticking = setImmediate(count);
  };
  let ticking = setImmediate(count);
  const pieces: { readonly piece: ArrayChunk; readonly turn: number }[] = [];
  await sendChunks(
    apart.arrays,
    (piece) => pieces.push({ piece, turn }),
    () => true,
  );
  clearImmediate(ticking);
  expect(pieces.map(({ piece }) => piece.data.byteLength / 2 ** 20)).toEqual([2, 2, 2, 2, 1, 2]);
  expect(new Set(pieces.map((each) => each.turn)).size).toBe(6);
  for (const { piece } of pieces) assembly.take(piece);
  await assembly.whole;
  expect(digested(assembly.args)).toEqual(digested(["adapter-1", state]));
});

it("stops when the call is cancelled", async () => {
  let sent = 0;
  await sendChunks(
    [megabytes(12)],
    () => {
      sent++;
    },
    () => sent < 2,
  );
  expect(sent).toBe(2);
});

it("a large state is loaded before the calls after it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tinklet-pieces-"));
  await writeTinyModel(folder);
  const engine = await openEngine(folder, { threads: 1 });
  try {
    const lora = { rank: 4000, seed: 1 }; // six megabytes: several chunks
    const [one, two] = [await engine.createAdapter(lora), await engine.createAdapter({ ...lora, seed: 2 })];
    const state = await engine.exportState(one.adapterId);
    expect(detachArrays([state])?.arrays.length).toBeGreaterThan(10);
    const sent = vi.spyOn(Worker.prototype, "postMessage");
    const loaded = engine.loadState(two.adapterId, state);
    const behind = engine.exportState(two.adapterId);
    expect((await loaded).adapterId).toBe(two.adapterId);
    expect(digested((await behind).weights)).toEqual(digested(state.weights));
    const types = sent.mock.calls.map(([message]) => (message as { type: string }).type);
    sent.mockRestore();
    expect(types.slice(0, 2)).toEqual(["call", "call"]);
    expect(types.filter((type) => type === "piece").length).toBeGreaterThan(10);
    const snapshot = await engine.importSnapshot(state);
    expect(digested((await engine.exportState(snapshot)).weights)).toEqual(digested(state.weights));
    const imported = engine.importState({
      ...state,
      weights: { ...state.weights, stray: { data: megabytes(5), shape: [1] } },
    });
    await expect(imported).rejects.toThrow(/stray does not belong/);
    const closing = engine.importState(state);
    await Promise.all([engine.close(), closing.catch(() => {})]);
  } finally {
    await engine.close();
    await rm(folder, { recursive: true });
  }
});
