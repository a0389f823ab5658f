/**
 * The functions of onnxruntime's C API in use, by name, with the index of each in the table `OrtApi` (an append-only ABI) and its
 * arguments. `koffi-api.ts` calls them; tests use a fake.
 */

/** An address. 0n is NULL. */
export type Pointer = bigint;

/** The requested version of the table; functions keep their indices in later versions. */
export const apiVersion = 24;

interface Signature {
  /** Index in `struct OrtApi` of onnxruntime_c_api.h. */
  readonly place: number;
  /** Argument types in koffi's notation. A function that creates an object takes one more argument, a pointer to the result. */
  readonly takes: readonly string[];
}

const pointer = "void *";
/** An array of NULL-terminated strings whose length is passed separately. */
const texts = "const char **";
const shape = "const int64_t *";

/** Functions that return an object through a pointer. */
export const makers = {
  CreateEnv: { place: 3, takes: ["int", "const char *"] },
  CreateSessionFromArray: { place: 8, takes: [pointer, pointer, "size_t", pointer] },
  CreateSessionOptions: { place: 10, takes: [] },
  CreateRunOptions: { place: 39, takes: [] },
  CreateTensorAsOrtValue: { place: 48, takes: [pointer, shape, "size_t", "int"] },
  CreateTensorWithDataAsOrtValue: { place: 49, takes: [pointer, pointer, "size_t", shape, "size_t", "int"] },
  GetTensorMutableData: { place: 51, takes: [pointer] },
  CreateMemoryInfo: { place: 68, takes: ["const char *", "int", "int", "int"] },
  AllocatorAlloc: { place: 75, takes: [pointer, "size_t"] },
  GetAllocatorWithDefaultOptions: { place: 78, takes: [] },
  CreateAllocator: { place: 131, takes: [pointer, pointer] },
  CreateIoBinding: { place: 134, takes: [pointer] },
  CreateArenaCfgV2: { place: 164, takes: ["str *", "size_t *", "size_t"] },
  CreateCUDAProviderOptions: { place: 205, takes: [] },
} as const satisfies Record<string, Signature>;

/** Functions without a result. */
export const actions = {
  EnableProfiling: { place: 14, takes: [pointer, "const char *"] },
  DisableMemPattern: { place: 17, takes: [pointer] },
  SetSessionLogSeverityLevel: { place: 22, takes: [pointer, "int"] },
  SetSessionGraphOptimizationLevel: { place: 23, takes: [pointer, "int"] },
  SetIntraOpNumThreads: { place: 24, takes: [pointer, "int"] },
  RunOptionsSetTerminate: { place: 46, takes: [pointer] },
  RunOptionsUnsetTerminate: { place: 47, takes: [pointer] },
  AllocatorFree: { place: 76, takes: [pointer, pointer] },
  AddSessionConfigEntry: { place: 130, takes: [pointer, "const char *", "const char *"] },
  RunWithBinding: { place: 133, takes: [pointer, pointer, pointer] },
  BindInput: { place: 136, takes: [pointer, "const char *", pointer] },
  BindOutput: { place: 137, takes: [pointer, "const char *", pointer] },
  BindOutputToDevice: { place: 138, takes: [pointer, "const char *", pointer] },
  CreateAndRegisterAllocator: { place: 144, takes: [pointer, pointer, pointer] },
  UnregisterAllocator: { place: 177, takes: [pointer, pointer] },
  SynchronizeBoundInputs: { place: 202, takes: [pointer] },
  SynchronizeBoundOutputs: { place: 203, takes: [pointer] },
  SessionOptionsAppendExecutionProvider_CUDA_V2: { place: 204, takes: [pointer, pointer] },
  UpdateCUDAProviderOptions: { place: 206, takes: [pointer, texts, texts, "size_t"] },
  SessionOptionsAppendExecutionProvider: { place: 216, takes: [pointer, "const char *", texts, texts, "size_t"] },
  CreateAndRegisterAllocatorV2: {
    place: 259,
    takes: [pointer, "const char *", pointer, pointer, texts, texts, "size_t"],
  },
  SetDeterministicCompute: { place: 273, takes: [pointer, "bool"] },
} as const satisfies Record<string, Signature>;

/** Functions that free or clear something; they cannot fail. */
export const releases = {
  ReleaseEnv: { place: 92, takes: [pointer] },
  ReleaseStatus: { place: 93, takes: [pointer] },
  ReleaseMemoryInfo: { place: 94, takes: [pointer] },
  ReleaseSession: { place: 95, takes: [pointer] },
  ReleaseValue: { place: 96, takes: [pointer] },
  ReleaseRunOptions: { place: 97, takes: [pointer] },
  ReleaseSessionOptions: { place: 100, takes: [pointer] },
  ReleaseAllocator: { place: 132, takes: [pointer] },
  ReleaseIoBinding: { place: 135, takes: [pointer] },
  ClearBoundInputs: { place: 141, takes: [pointer] },
  ClearBoundOutputs: { place: 142, takes: [pointer] },
  ReleaseArenaCfg: { place: 157, takes: [pointer] },
  ReleaseCUDAProviderOptions: { place: 208, takes: [pointer] },
} as const satisfies Record<string, Signature>;

/** Functions with several results. */
export const readers = {
  GetErrorCode: { place: 1, takes: [pointer] },
  GetErrorMessage: { place: 2, takes: [pointer] },
  GetTensorElementType: { place: 60, takes: [pointer] },
  GetDimensionsCount: { place: 61, takes: [pointer] },
  GetDimensions: { place: 62, takes: [pointer] },
  GetTensorTypeAndShape: { place: 65, takes: [pointer] },
  ReleaseTensorTypeAndShapeInfo: { place: 99, takes: [pointer] },
  GetBoundOutputValues: { place: 140, takes: [pointer, pointer] },
} as const satisfies Record<string, Signature>;

export interface OrtApi {
  /** Version of the library, for example `1.30.0`. */
  readonly version: string;
  /** @throws {@link OrtFailure} */
  make(name: keyof typeof makers, ...args: readonly unknown[]): Pointer;
  /** @throws {@link OrtFailure} */
  act(name: keyof typeof actions, ...args: readonly unknown[]): void;
  release(name: keyof typeof releases, pointer: Pointer): void;
  /** Output values of a run, in the order in which they were bound; the caller releases each. */
  boundOutputs(binding: Pointer): readonly Pointer[];
  /** Element type (ONNX code) and shape of a tensor. */
  shapeOf(value: Pointer): { readonly elementType: number; readonly dims: readonly number[] };
  /** A view of native memory, valid until it is freed. */
  view(address: Pointer, byteLength: number): ArrayBuffer;
}

/** A status other than OK. */
export class OrtFailure extends Error {
  /** `OrtErrorCode`. */
  readonly code: number;

  constructor(operation: string, code: number, message: string) {
    super(`${operation}: ${message.trim()}`);
    this.name = "OrtFailure";
    this.code = code;
  }
}
