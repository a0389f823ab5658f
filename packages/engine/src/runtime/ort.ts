/** Loads onnxruntime in Node: the native package, or the WebAssembly build. */
import { nativeRuntime, type Ort, wasmRuntime } from "./ort-runtime.ts";
import type { Runtime } from "./runtime.ts";

/** The reason that a package cannot be loaded, in one line, without the path of the importing file. */
export const reasonOf = (error: unknown): string => {
  const [said = ""] = (error instanceof Error ? error.message : String(error)).split("\n");
  return said.replace(/ imported from .*$/, "");
};

/** The native runtime; undefined if its package is not installed or cannot be loaded. */
export async function loadNativeRuntime(threads: number): Promise<{ runtime?: Runtime; reason?: string }> {
  try {
    const module = (await import("onnxruntime-node")) as unknown as { default?: Ort } & Ort;
    return { runtime: nativeRuntime(module.default ?? module, threads) };
  } catch (error) {
    return { reason: reasonOf(error) };
  }
}

/** The WebAssembly runtime: always available, several times slower, limited to 4 GiB of memory. */
export async function loadWasmRuntime(threads: number, programBytes?: number): Promise<Runtime> {
  const module = (await import("onnxruntime-web")) as unknown as { default?: Ort } & Ort;
  return wasmRuntime(module.default ?? module, { threads, ...(programBytes === undefined ? {} : { programBytes }) });
}
