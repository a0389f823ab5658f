/**
 * Devices for tests, on machines without any: onnxruntime's CPU provider behind the binding for devices, and its WebGPU provider over
 * SwiftShader, a Vulkan driver in software from Debian's package `chromium`.
 */
import { existsSync } from "node:fs";
import { loadOrtApi } from "../device/koffi-api.ts";
import { findLibrary } from "../device/library.ts";
import { OrtDevice } from "../device/ort-device.ts";
import type { Device } from "../runtime/device.ts";
import { createDeviceRuntime } from "../runtime/device-runtime.ts";
import type { Runtime } from "../runtime/runtime.ts";

const swiftshader = "/usr/lib/chromium/vk_swiftshader_icd.json";

/** Whether there is a driver for WebGPU; the one in software is chosen for this process where none is. */
export const hasWebGpuDriver = (): boolean => {
  if (process.env["VK_DRIVER_FILES"] === undefined && existsSync(swiftshader)) {
    process.env["VK_DRIVER_FILES"] = swiftshader;
  }
  return process.env["VK_DRIVER_FILES"] !== undefined;
};

/** A device behind the binding, whatever `auto` would take. */
export async function openTestDevice(
  kind: Device["kind"],
  { memoryBytes = 2 ** 29 }: { memoryBytes?: number } = {},
): Promise<OrtDevice> {
  const { path } = findLibrary();
  const api = await loadOrtApi(path);
  return new OrtDevice({ api, kind, name: `test ${kind}`, memoryBytes, threads: 1 });
}

/** The kinds of device that this machine can test. */
export const testKinds: readonly ("cpu" | "webgpu")[] = hasWebGpuDriver() ? ["cpu", "webgpu"] : ["cpu"];

export const runtimeOf = (device: OrtDevice): Runtime & { readonly device: OrtDevice } => ({
  ...createDeviceRuntime(device),
  device,
});
