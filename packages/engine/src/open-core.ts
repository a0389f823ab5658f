/** Opens a model on the current thread of Node: finds its files and its runtime. */
import { availableParallelism } from "node:os";
import { type DownloadProgress, openModel } from "@tinklet/models";
import { readConfig } from "@tinklet/models/config";
import type { EngineCore } from "./core.ts";
import { createCore } from "./create-core.ts";
import { defaultMemoryBudget } from "./default-memory-budget.ts";
import { openDevice } from "./device/open-device.ts";
import { ConfigError } from "./errors.ts";
import { modelFolders } from "./model-folders.ts";
import { createDeviceRuntime } from "./runtime/device-runtime.ts";
import { createInterpreter } from "./runtime/interpreter.ts";
import { loadNativeRuntime, loadWasmRuntime } from "./runtime/ort.ts";
import { nativeHint } from "./runtime/ort-runtime.ts";
import type { Runtime } from "./runtime/runtime.ts";
import type { EngineOptions } from "./types.ts";
import { type GateMemory, gatedRuntime, throughGate } from "./worker/native-call-gate.ts";

/** Options that can be sent to another thread. */
export type PlainOptions = Omit<EngineOptions, "onProgress" | "onNotice" | "signal" | "inThread">;

export interface OpenCallbacks {
  readonly notice: (message: string) => void;
  readonly progress: (progress: DownloadProgress) => void;
  /** Aborts a download. */
  readonly signal?: AbortSignal;
  /** Shared memory that marks native calls, on a thread that the process may stop. */
  readonly gate?: GateMemory;
  /** Held by the one thread of the process that runs something on a device. */
  readonly deviceLock?: Int32Array<SharedArrayBuffer>;
}

export interface RuntimeChoice {
  readonly threads: number;
  readonly notice: (message: string) => void;
  readonly loadNative?: typeof loadNativeRuntime;
}

/** Chooses a runtime; a fallback to WebAssembly is reported as a notice. */
export async function chooseRuntime(
  wanted: EngineOptions["runtime"],
  { threads, notice, loadNative = loadNativeRuntime }: RuntimeChoice,
): Promise<Runtime> {
  if (wanted === "interpreter") return createInterpreter();
  if (wanted === "wasm") return loadWasmRuntime(threads);
  const { runtime, reason } = await loadNative(threads);
  if (runtime) return runtime;
  if (wanted === "native") {
    throw new ConfigError(`the native runtime cannot be loaded: ${reason}`, {
      code: "no_native_runtime",
      field: "runtime",
      hint: "install onnxruntime-node, or use the wasm runtime",
    });
  }
  notice(
    `onnxruntime-node cannot be loaded (${reason}): running on WebAssembly, about four times slower; ${nativeHint}`,
  );
  return loadWasmRuntime(threads);
}

/** The device's runtime, if the options ask for one and it can be opened; otherwise a runtime of the CPU. */
async function openRuntime(options: PlainOptions, { notice, gate, deviceLock }: OpenCallbacks): Promise<Runtime> {
  const threads = options.threads ?? availableParallelism();
  const isNative = options.runtime === undefined || options.runtime === "auto" || options.runtime === "native";
  const device = await openDevice(isNative ? (options.device ?? "cpu") : "cpu", {
    threads,
    notice,
    gate,
    lock: deviceLock,
    memoryBudgetBytes: options.memoryBudgetBytes,
    precision: options.precision,
  });
  if (device) return createDeviceRuntime(device); // its native calls pass the gate one by one
  const choose = () => chooseRuntime(options.runtime, { threads, notice });
  return gate ? gatedRuntime(await throughGate(gate, choose), gate) : choose();
}

/** @throws ConfigError, WeightsError, MemoryError; where possible before anything large is read. */
export async function openCore(source: string, options: PlainOptions, callbacks: OpenCallbacks): Promise<EngineCore> {
  const { notice, progress, signal } = callbacks;
  const { cacheDir, offline } = options;
  const opened = await openModel(source, { cacheDir, offline, signal, onProgress: progress });
  try {
    signal?.throwIfAborted();
    readConfig(opened.config); // before a runtime is loaded
    const runtime = await openRuntime(options, callbacks);
    return await createCore(opened, runtime, {
      ...options,
      budget: runtime.device?.memoryBytes ?? options.memoryBudgetBytes ?? defaultMemoryBudget(),
      notice,
      folders: modelFolders(opened.path),
      residentBytes: () => process.memoryUsage.rss(),
    });
  } finally {
    opened.close();
  }
}
