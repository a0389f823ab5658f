/**
 * Devices for tests. Without a GPU: onnxruntime's CPU provider behind the device binding, and its WebGPU provider over SwiftShader, the
 * software Vulkan driver in Debian's package `chromium`. With an NVIDIA GPU and the CUDA provider, CUDA as well.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { loadOrtApi } from "../device/koffi-api.ts";
import { findLibrary } from "../device/library.ts";
import { OrtDevice } from "../device/ort-device.ts";
import type { Device } from "../runtime/device.ts";
import { createDeviceRuntime } from "../runtime/device-runtime.ts";
import type { Runtime } from "../runtime/runtime.ts";

const swiftshader = "/usr/lib/chromium/vk_swiftshader_icd.json";
/** The Vulkan loader, from Debian's package `libvulkan1`. Chromium has one of its own, where no other program finds it. */
const loaders = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map((triple) => `/usr/lib/${triple}/libvulkan.so.1`);

/** Whether this machine can run WebGPU. Selects SwiftShader for this process unless `VK_DRIVER_FILES` names another driver. */
export const hasWebGpuDriver = (): boolean => {
  if (!loaders.some((path) => existsSync(path))) return false;
  if (process.env["VK_DRIVER_FILES"] === undefined && existsSync(swiftshader)) {
    process.env["VK_DRIVER_FILES"] = swiftshader;
  }
  return process.env["VK_DRIVER_FILES"] !== undefined;
};

/** Opens a device behind the binding, including those that `auto` skips. */
export async function openTestDevice(
  kind: Device["kind"],
  { memoryBytes = 2 ** 29 }: { memoryBytes?: number } = {},
): Promise<OrtDevice> {
  const { path } = findLibrary();
  const api = await loadOrtApi(path);
  return new OrtDevice({ api, kind, name: `test ${kind}`, memoryBytes, threads: 1 });
}

/** Whether this machine has an NVIDIA GPU, and onnxruntime's CUDA provider is installed. */
const hasCuda = (): boolean =>
  existsSync("/dev/nvidiactl") && existsSync(join(findLibrary().folder, "libonnxruntime_providers_cuda.so"));

/** The kinds of device that this machine can test. */
export const testKinds: readonly Device["kind"][] = [
  "cpu",
  ...(hasWebGpuDriver() ? (["webgpu"] as const) : []),
  ...(hasCuda() ? (["cuda"] as const) : []),
];

export const runtimeOf = (device: OrtDevice): Runtime & { readonly device: OrtDevice } => ({
  ...createDeviceRuntime(device),
  device,
});
