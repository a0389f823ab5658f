/** What differs between onnxruntime's providers: how a session gets one, whose memory its tensors are in, and what it lacks. */
import type { Graph } from "../graph/graph.ts";
import { lowerForWebGpu } from "../onnx/lower.ts";
import type { Device, DevicePlan } from "../runtime/device.ts";
import type { OrtApi, Pointer } from "./ort-api.ts";

export interface Provider {
  /** Of the device's memory, as onnxruntime calls it. */
  readonly memoryName: string;
  readonly index: number;
  readonly plan: DevicePlan;
  /** The graph with the provider's own operations. */
  readonly lower: (graph: Graph) => Graph;
  /** Puts the provider into session options. */
  readonly append?: (api: OrtApi, settings: Pointer) => void;
  /** One allocator for all sessions, which takes no more than `limit` bytes. */
  readonly shareAllocator?: (api: OrtApi, env: Pointer, memory: Pointer, limit: number) => void;
}

const asItIs = (graph: Graph): Graph => graph;

/** Of an arena: the limit, and growth by what is asked for instead of by powers of two, which would reserve up to twice as much. */
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

/** Float32 as the CPU computes it: no products in TF32, whose mantissa has 10 bits. */
const cudaOptions = (index: number): readonly (readonly [string, string])[] => [
  ["device_id", String(index)],
  ["use_tf32", "0"],
  ["arena_extend_strategy", "kSameAsRequested"],
];

const cuda = (index: number): Provider => ({
  memoryName: "Cuda",
  index,
  plan: { trainingTokens: 16_384, mostTrainingTokens: 32_768, promptTokens: 8192, sequences: 128 },
  lower: asItIs,
  append: (api, settings) => {
    const options = api.make("CreateCUDAProviderOptions");
    try {
      const [keys, values] = [0, 1].map((side) => cudaOptions(index).map((option) => option[side]));
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
  plan: { trainingTokens: 2048, mostTrainingTokens: 8192, promptTokens: 1024, sequences: 32 },
  lower: lowerForWebGpu,
  append: (api, settings) =>
    // Without validation a buffer that could not be allocated is written and read as if it were there.
    api.act(
      "SessionOptionsAppendExecutionProvider",
      settings,
      "WebGPU",
      ["validationMode", "powerPreference"],
      ["basic", "high-performance"],
      2,
    ),
});

/** The same binding on the CPU: for tests, where there is no device. */
const cpu = (): Provider => ({
  memoryName: "Cpu",
  index: 0,
  plan: { trainingTokens: 1024, mostTrainingTokens: 4096, promptTokens: 256, sequences: 32 },
  lower: asItIs,
  shareAllocator: (api, env, memory, limit) =>
    withArena(api, limit, (arena) => api.act("CreateAndRegisterAllocator", env, memory, arena)),
});

export const providers: Readonly<Record<Device["kind"], (index: number) => Provider>> = { cuda, webgpu, cpu };
