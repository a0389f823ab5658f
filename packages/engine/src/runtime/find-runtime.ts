/** Which runtime an engine would choose here, for those who want to say so before one is opened. */
import { loadNativeRuntime, nativeHint } from "./ort.ts";

/** The runtime that `runtime: "auto"` means on this machine. */
export interface FoundRuntime {
  readonly name: "native" | "wasm";
  /** Why the native one cannot be loaded. */
  readonly reason?: string;
  /** How to get the native one. */
  readonly hint?: string;
}

/** Tries to load the native runtime, as an engine does; without it an engine runs on WebAssembly. */
export async function findRuntime(): Promise<FoundRuntime> {
  const { runtime, reason = "unknown" } = await loadNativeRuntime(1);
  return runtime ? { name: "native" } : { name: "wasm", reason, hint: nativeHint };
}
