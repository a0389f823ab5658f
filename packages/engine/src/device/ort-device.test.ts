/** The device binding over onnxruntime's CPU provider, and over WebGPU if there is a driver. */
import { afterAll, describe, expect, it } from "vitest";
import { EngineError } from "../errors.ts";
import { Graph } from "../graph/graph.ts";
import * as ops from "../graph/ops.ts";
import type { DeviceValue } from "../runtime/device.ts";
import { f32, i32 } from "../runtime/runtime.ts";
import { openTestDevice, testKinds } from "../testing/devices.ts";
import { OrtFailure } from "./ort-api.ts";
import type { OrtDevice } from "./ort-device.ts";

const width = 256;
/** Writes rows of a pool in place and returns a new value. */
const scatterGraph = (): Graph => {
  const graph = new Graph();
  const pool = graph.input("pool", [16, width]);
  const rows = graph.input("rows", ["n", 1], { dtype: "int64" });
  const updates = graph.input("updates", ["n", width]);
  const next = graph.node("ScatterND", [pool, rows, updates], [16, width]);
  graph.output("next", next);
  graph.output("sum", ops.reduceSum(graph, next, [0]));
  graph.output("twice", ops.scale(graph, updates, 2));
  return graph;
};
const update = (row: number, value: number) => ({
  rows: i32(Int32Array.of(row), [1, 1]),
  updates: f32(new Float32Array(width).fill(value), [1, width]),
});
const codeOf = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "nothing",
    (error: unknown) => (error instanceof EngineError ? error.code : String(error)),
  );

describe.each(testKinds)("%s", (kind) => {
  const opened: OrtDevice[] = [];
  const open = async (): Promise<OrtDevice> => {
    const device = await openTestDevice(kind);
    opened.push(device);
    return device;
  };
  afterAll(() => {
    for (const device of opened) device.dispose();
  });

  it("keeps values on the device, and counts the bytes that cross the bus", async () => {
    const device = await open();
    const value = await device.upload(f32(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]));
    expect(device.traffic).toEqual({ toDevice: 24, fromDevice: 0 });
    expect(device.valueBytes).toBe(24);
    expect(await device.download(value)).toEqual({ data: Float32Array.of(1, 2, 3, 4, 5, 6), dims: [2, 3] });
    expect(device.traffic).toEqual({ toDevice: 24, fromDevice: 24 });
    const integers = await device.upload(i32(Int32Array.of(-1, 2 ** 31 - 1), [2]));
    expect((await device.download(integers)).data).toEqual(Int32Array.of(-1, 2 ** 31 - 1));
    value.release();
    integers.release();
    value.release();
    expect(device.valueBytes).toBe(0);
  });

  it("writes rows of a value in place", async () => {
    const device = await open();
    const program = await device.compile(scatterGraph(), new Map(), { resident: ["next", "twice"] });
    const pool = await device.upload(f32(new Float32Array(16 * width), [16, width]));
    for (let row = 0; row < 3; row++) {
      const { values, resident } = await program.runOnDevice(
        { pool, ...update(row, row + 1) },
        { into: { next: pool } },
      );
      expect(values["sum"]!.data[0]).toBe([1, 3, 6][row]);
      expect(Object.keys(resident)).toEqual(["twice"]);
      expect((await device.download(resident["twice"]!)).data[0]).toBe(2 * row + 2);
      resident["twice"]!.release();
    }
    const { data } = await device.download(pool);
    expect([0, 1, 2, 3].map((row) => data[row * width + 7])).toEqual([1, 2, 3, 0]);
  });

  it("refuses values that were released, here and where they are still bound", async () => {
    const device = await open();
    const program = await device.compile(scatterGraph(), new Map(), { resident: ["next", "twice"] });
    const pool = await device.upload(f32(new Float32Array(16 * width), [16, width]));
    await program.runOnDevice({ pool, ...update(0, 1) });
    pool.release();
    expect(await codeOf(program.runOnDevice({ pool, ...update(0, 1) }))).toBe("released");
    expect(await codeOf(device.download(pool))).toBe("released");
    const other = await device.upload(f32(new Float32Array(16 * width), [16, width]));
    expect(await codeOf(program.runOnDevice({ pool: other, ...update(0, 1) }, { into: { next: pool } }))).toBe(
      "released",
    );
    // The device is still usable.
    expect((await program.runOnDevice({ pool: other, ...update(0, 5) })).values["sum"]!.data[0]).toBe(5);
  });

  it("refuses values of another device, wrong shapes, empty values and released programs", async () => {
    const [device, other] = [await open(), await open()];
    const program = await device.compile(scatterGraph(), new Map());
    const pool = f32(new Float32Array(16 * width), [16, width]);
    const foreign = await other.upload(pool);
    expect(await codeOf(program.runOnDevice({ pool: foreign, ...update(0, 1) }))).toBe("foreign_value");
    expect(await codeOf(program.run({ pool: { ...pool, dims: [8, 2 * width] }, ...update(0, 1) }))).toBe(
      "shape_mismatch",
    );
    const empty = { rows: i32(new Int32Array(0), [0, 1]), updates: f32(new Float32Array(0), [0, width]) };
    expect(await codeOf(program.run({ pool, ...empty }))).toBe("empty_input");
    expect(await codeOf(program.run({ pool, ...update(0, 1), rows: pool }))).toBe("shape_mismatch");
    await program.dispose();
    await program.dispose();
    expect(await codeOf(program.run({ pool, ...update(0, 1) }))).toBe("closed");
  });

  it("a value outlives the program that made it", async () => {
    const device = await open();
    for (let round = 0; round < 3; round++) {
      const graph = new Graph();
      graph.output("y", ops.scale(graph, graph.input("x", ["n"]), 2));
      const program = await device.compile(graph, new Map(), { resident: ["y"] });
      const { resident } = await program.runOnDevice({ x: f32(Float32Array.of(1, 2), [2]) });
      await program.dispose();
      expect((await device.download(resident["y"]!)).data).toEqual(Float32Array.of(2, 4));
      resident["y"]!.release();
    }
    expect(device.valueBytes).toBe(0);
  });

  it("frees everything when it is closed, and refuses work from then on", async () => {
    const device = await open();
    const value: DeviceValue = await device.upload(f32(Float32Array.of(1), [1]));
    device.dispose();
    device.dispose();
    expect(value.isReleased).toBe(true);
    expect(device.valueBytes).toBe(0);
    expect(await codeOf(device.upload(f32(Float32Array.of(1), [1])))).toBe("closed");
  });
});

it("runs 10,000 times without growing", async () => {
  const device = await openTestDevice("cpu");
  const program = await device.compile(scatterGraph(), new Map(), { resident: ["next", "twice"] });
  const pool = await device.upload(f32(new Float32Array(16 * width), [16, width]));
  const run = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++) {
      const { resident } = await program.runOnDevice({ pool, ...update(i % 16, i) }, { into: { next: pool } });
      resident["twice"]!.release();
    }
  };
  await run(2000);
  const { rss } = process.memoryUsage();
  await run(10_000);
  // An output that was never freed would add up to 10 MB, its bookkeeping alone to 2 MB; half of that is allowed for noise of the heap.
  expect(process.memoryUsage().rss - rss).toBeLessThan(2e7);
  expect(device.valueBytes).toBe(4 * 16 * width);
  device.dispose();
});

it("a lost device fails every later call with the first failure, and one without memory does not", async () => {
  const device = await openTestDevice("cpu");
  const value = await device.upload(f32(Float32Array.of(1), [1]));
  const failing = (message: string) => () => {
    throw new OrtFailure("RunWithBinding", 1, message);
  };
  const memory = () => device.exclusively(failing("CUDA failure 2: out of memory"));
  expect(memory).toThrow(expect.objectContaining({ code: "device_memory" }));
  expect((await device.download(value)).data).toEqual(Float32Array.of(1));
  const lost = expect.objectContaining({
    code: "device_lost",
    message: expect.stringContaining("illegal memory access"),
  });
  expect(() => device.exclusively(failing("CUDA failure 700: an illegal memory access"))).toThrow(lost);
  expect(memory).toThrow(lost);
  await expect(device.download(value)).rejects.toEqual(lost);
  device.dispose();
});
