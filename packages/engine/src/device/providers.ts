/** The differences between onnxruntime's providers: session options, memory of tensors, and missing operations. */
import type { Graph } from "../graph/graph.ts";
import { lowerForCuda, lowerForWebGpu, withBfloat16Weights } from "../onnx/lower.ts";
import { cpuSlot, type Device, type DevicePlan } from "../runtime/device.ts";
import type { Precision } from "../types.ts";
import type { OrtApi, Pointer } from "./ort-api.ts";

export interface Provider {
  /** onnxruntime's name of the device's memory. */
  readonly memoryName: string;
  readonly index: number;
  readonly plan: DevicePlan;
  /** Replaces operations that the provider lacks. */
  readonly lower: (graph: Graph) => Graph;
  /** Adds the provider to session options. */
  readonly append?: (api: OrtApi, settings: Pointer) => void;
  /** Creates one allocator for all sessions, limited to `limit` bytes. */
  readonly shareAllocator?: (api: OrtApi, env: Pointer, memory: Pointer, limit: number) => void;
}

const asItIs = (graph: Graph): Graph => graph;

/** An arena with a limit that grows by the requested size; the default, powers of two, would reserve up to twice as much. */
const withArena = (api: OrtApi, limit: number, use: (arena: Pointer) => void): void => {
  const arena = api.make(
    "CreateArenaCfgV2",
    ["max_mem", "arena_extend_strategy"],
    BigUint64Array.of(BigInt(limit), 1n),
    2,
  );
  try {
    use(arena);
  } finally {
    api.release("ReleaseArenaCfg", arena);
  }
};

/** Products of float32 values: exact, as on the CPU, or with TF32, whose factors have a mantissa of 10 bits. */
const cudaOptions = (index: number, precision: Precision): readonly (readonly [string, string])[] => [
  ["device_id", String(index)],
  ["use_tf32", precision === "float32" ? "0" : "1"],
  ["arena_extend_strategy", "kSameAsRequested"],
];

const cuda = (index: number, precision: Precision): Provider => ({
  memoryName: "Cuda",
  index,
  plan: {
    trainingTokens: 16_384,
    mostTrainingTokens: 32_768,
    slot: { bytes: 5e8, rows: 2048 },
    promptTokens: 8192,
    sequences: 128,
  },
  lower: precision === "bfloat16" ? (graph) => withBfloat16Weights(lowerForCuda(graph)) : lowerForCuda,
  append: (api, settings) => {
    const options = api.make("CreateCUDAProviderOptions");
    try {
      const [keys, values] = [0, 1].map((side) => cudaOptions(index, precision).map((option) => option[side]));
      api.act("UpdateCUDAProviderOptions", options, keys, values, keys!.length);
      api.act("SessionOptionsAppendExecutionProvider_CUDA_V2", settings, options);
    } finally {
      api.release("ReleaseCUDAProviderOptions", options);
    }
  },
  shareAllocator: (api, env, memory, limit) =>
    withArena(api, limit, (arena) =>
      api.act(
        "CreateAndRegisterAllocatorV2",
        env,
        "CUDAExecutionProvider",
        memory,
        arena,
        ["device_id"],
        [String(index)],
        1,
      ),
    ),
});

/** Dawn shares its buffers between sessions by itself. */
const webgpu = (index: number): Provider => ({
  memoryName: "WebGPU_Buf",
  index,
  plan: {
    trainingTokens: 2048,
    mostTrainingTokens: 8192,
    slot: cpuSlot,
    promptTokens: 1024,
    sequences: 32,
  },
  lower: lowerForWebGpu,
  append: (api, settings) =>
    // Without validation, buffers whose allocation failed are read and written as if they existed.
    api.act(
      "SessionOptionsAppendExecutionProvider",
      settings,
      "WebGPU",
      ["validationMode", "powerPreference"],
      ["basic", "high-performance"],
      2,
    ),
});

/** The same binding on the CPU, for tests on machines without a device. */
const cpu = (): Provider => ({
  memoryName: "Cpu",
  index: 0,
  plan: {
    trainingTokens: 1024,
    mostTrainingTokens: 4096,
    slot: cpuSlot,
    promptTokens: 256,
    sequences: 32,
  },
  lower: asItIs,
  shareAllocator: (api, env, memory, limit) =>
    withArena(api, limit, (arena) => api.act("CreateAndRegisterAllocator", env, memory, arena)),
});

export const providers: Readonly<Record<Device["kind"], (index: number, precision: Precision) => Provider>> = {
  cuda,
  webgpu,
  cpu,
};
