/** The first message to an engine's Web Worker, and the memory that an engine may use in a browser. */
import type { ToWorker } from "../worker/messages.ts";

export interface BrowserStart {
  readonly type: "start";
  /** Address of the model's folder, with a slash at the end. */
  readonly folder: string;
  /** Name of the model in messages and in `info.origin`. */
  readonly origin: string;
  /** Address of the folder with onnxruntime-web's `ort-wasm-simd-threaded.mjs` and `.wasm`, with a slash at the end. */
  readonly runtimeUrl: string;
  readonly threads: number;
  readonly memoryBudgetBytes: number;
  readonly contextLength: number | undefined;
  readonly maxBatch: number | undefined;
  /** Name of the cache of downloaded files; undefined for none. */
  readonly cacheName: string | undefined;
  /** A Web Lock that the worker holds while it lives, so that the page notices its end; undefined without Web Locks. */
  readonly lock: string | undefined;
}

export type ToBrowserWorker = BrowserStart | ToWorker;

/** The fix for what does not fit in WebAssembly. */
export const browserHint = "a browser has at most 4 GiB for a model and its training; use a Tinklet server for more";

/** Memory that browsers allow a page on most devices, used where the device does not say how much it has. */
const unknownDeviceBytes = 2 ** 31;

/**
 * The memory budget on a device.
 * @param deviceGiB - `navigator.deviceMemory`: a power of two, at most 8, missing in Firefox and Safari
 */
export const browserMemoryBudget = (deviceGiB: number | undefined): number =>
  deviceGiB === undefined || !(deviceGiB > 0) ? unknownDeviceBytes : Math.min(deviceGiB * 2 ** 29, 2 ** 32);
