/** What is missing for a device, on made-up systems. */
import { expect, it } from "vitest";
import { DeviceError } from "../errors.ts";
import { neededLibraries } from "./elf-needed.ts";
import { type DeviceSystem, findCuda, findWebGpu } from "./find-devices.ts";
import { findLibrary } from "./library.ts";

const folder = "/app/onnxruntime-node/bin/napi-v6/linux/x64";
/** A Linux machine without any GPU software; `files` maps paths to contents. */
const machine = (files: Readonly<Record<string, string>> = {}, changes: Partial<DeviceSystem> = {}): DeviceSystem => ({
  platform: "linux",
  arch: "x64",
  env: {},
  exists: (path) => path in files,
  list: (parent) => [
    ...new Set(
      Object.keys(files).flatMap((path) =>
        path.startsWith(`${parent}/`) ? [path.slice(parent.length + 1).split("/")[0]!] : [],
      ),
    ),
  ],
  readText: (path) => files[path],
  run: () => "NVIDIA H200, 142000\n",
  needed: () => ["libcublasLt.so.12", "libcudnn.so.9", "libcudart.so.12", "libc.so.6"],
  isLoadable: () => Promise.resolve(true),
  findLibrary: () => ({ path: `${folder}/libonnxruntime.so.1`, folder, version: "1.30.0" }),
  machineBytes: 16e9,
  ...changes,
});
const smi = { "/usr/bin/nvidia-smi": "" };
const provider = { [`${folder}/libonnxruntime_providers_cuda.so`]: "" };

it.each([
  [
    "no driver",
    machine(),
    "no NVIDIA driver is installed (nvidia-smi was not found)",
    "sudo apt-get install nvidia-driver",
  ],
  ["a driver that does not run", machine(smi, { run: () => undefined }), /nvidia-smi reports no GPU/, "nvidia-smi"],
  ["no provider", machine(smi), /CUDA provider .* is not installed/, /ONNXRUNTIME_NODE_INSTALL=cuda12 npm rebuild/],
  [
    "missing libraries",
    machine({ ...smi, ...provider }, { isLoadable: (name) => Promise.resolve(!/cublas|cudnn/.test(name)) }),
    "CUDA libraries are missing: libcublasLt.so.12, libcudnn.so.9",
    "sudo apt-get install libcublas-12-9 libcudnn9-cuda-12   (from NVIDIA's package repository)",
  ],
  ["another platform", machine({}, { platform: "win32" }), /linux x64 only, this is win32 x64/, undefined],
])("CUDA: %s", async (_, system, reason, hint) => {
  const found = await findCuda(system);
  if (typeof reason === "string") expect(found.reason).toBe(reason);
  else expect(found.reason).toMatch(reason);
  if (hint === undefined) expect(found.hint).toBeUndefined();
  else if (typeof hint === "string") expect(found.hint).toBe(hint);
  else expect(found.hint).toMatch(hint);
});

it("CUDA: the package of a CUDA 13 provider is that of CUDA 13", async () => {
  const system = machine(
    { ...smi, ...provider },
    { needed: () => ["libcublas.so.13", "libcudnn.so.9"], isLoadable: () => Promise.resolve(false) },
  );
  expect((await findCuda(system)).hint).toMatch(/libcublas-13-0 libcudnn9-cuda-13/);
});

it("CUDA: names the GPU and its free memory", async () => {
  expect(await findCuda(machine({ ...smi, ...provider }))).toEqual({
    kind: "cuda",
    name: "NVIDIA H200",
    isHardware: true,
    freeBytes: 142_000 * 2 ** 20,
  });
});

const loader = { "/usr/lib/x86_64-linux-gnu/libvulkan.so.1": "" };
const radeon = {
  "/usr/share/vulkan/icd.d/radeon_icd.json": "",
  "/sys/class/drm/card0/device/vendor": "0x1002\n",
  "/sys/class/drm/card0/device/mem_info_vram_total": "8000",
  "/sys/class/drm/card0/device/mem_info_vram_used": "1000",
};
const swiftshader = { VK_DRIVER_FILES: "/usr/lib/chromium/vk_swiftshader_icd.json" };

it("WebGPU: a GPU with a driver is hardware, with its memory", () => {
  expect(findWebGpu(machine({ ...loader, ...radeon }))).toEqual({
    kind: "webgpu",
    name: "AMD GPU (Vulkan)",
    isHardware: true,
    freeBytes: 7000,
  });
});

it.each([
  ["no loader", machine(radeon), /Vulkan loader .* is not installed/],
  ["no driver", machine(loader), /no Vulkan driver is installed/],
  ["a driver without a GPU", machine({ ...loader, "/usr/share/vulkan/icd.d/radeon_icd.json": "" }), /no GPU in/],
  [
    "no library",
    machine(
      {},
      {
        findLibrary: () => {
          throw new DeviceError("no_device", "onnxruntime-node is not installed", { hint: "install it" });
        },
      },
    ),
    "onnxruntime-node is not installed",
  ],
])("WebGPU: %s", (_, system, reason) => {
  const found = findWebGpu(system);
  expect(found.name).toBeUndefined();
  expect(found.reason).toMatch(reason);
});

it("WebGPU: a driver in software is not hardware, also beside a GPU", () => {
  const found = findWebGpu(machine({ ...loader, ...radeon }, { env: swiftshader }));
  expect(found).toEqual({ kind: "webgpu", name: "software driver vk_swiftshader_icd.json", isHardware: false });
});

it("WebGPU: macOS has hardware, Windows is not known to have any", () => {
  expect(findWebGpu(machine({}, { platform: "darwin", arch: "arm64" })).isHardware).toBe(true);
  expect(findWebGpu(machine({}, { platform: "win32" }))).toEqual({
    kind: "webgpu",
    name: "GPU (Direct3D 12)",
    isHardware: false,
  });
});

it.runIf(process.platform === "linux")("reads the needed libraries of a real library, and of nothing else", () => {
  expect(neededLibraries(findLibrary().path)).toContain("libc.so.6");
  expect(neededLibraries(import.meta.filename)).toEqual([]);
  expect(neededLibraries("/no/such/file")).toEqual([]);
});
