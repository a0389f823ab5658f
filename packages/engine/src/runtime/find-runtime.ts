/** Reports which runtime an engine would use on this machine, without opening one. */
import { loadNativeRuntime } from "./ort.ts";
import { nativeHint } from "./ort-runtime.ts";

/** The runtime that `runtime: "auto"` selects. */
export interface FoundRuntime {
  readonly name: "native" | "wasm";
  /** Why the native runtime cannot be loaded. */
  readonly reason?: string;
  /** How to install the native runtime. */
  readonly hint?: string;
}

/** Tries to load the native runtime; without it, engines run on WebAssembly. */
export async function findRuntime(): Promise<FoundRuntime> {
  const { runtime, reason = "unknown" } = await loadNativeRuntime(1);
  return runtime ? { name: "native" } : { name: "wasm", reason, hint: nativeHint };
}
