/**
 * Finds out which devices this machine has, without loading a driver where none is installed. What is missing is named with the line that
 * installs it. Opening a device is `open-device.ts`.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { basename, join } from "node:path";
import { neededLibraries } from "./elf-needed.ts";
import { findLibrary, type OrtLibrary } from "./library.ts";

/** One kind of device: the GPU that `auto` can choose, or the reason why this kind cannot be used. */
export interface FoundDevice {
  readonly kind: "cuda" | "webgpu";
  /** Display name; absent if no such hardware was found. */
  readonly name?: string;
  /** Free memory in bytes, where the system reports it. */
  readonly freeBytes?: number;
  /** Whether it is known to be hardware: a driver can also run in software. `auto` uses hardware only. */
  readonly isHardware: boolean;
  /** Why it cannot be used. */
  readonly reason?: string;
  /** The lines that fix it. */
  readonly hint?: string;
}

/** The parts of the system that are examined; tests replace them. */
export interface DeviceSystem {
  readonly platform: string;
  readonly arch: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly exists: (path: string) => boolean;
  /** Names in a folder; empty if there is no such folder. */
  readonly list: (folder: string) => readonly string[];
  readonly readText: (path: string) => string | undefined;
  /** Output of a program, or undefined if it fails. */
  readonly run: (file: string, args: readonly string[]) => string | undefined;
  readonly needed: (library: string) => readonly string[];
  /** Whether the dynamic loader finds a library by its name. */
  readonly isLoadable: (name: string) => Promise<boolean>;
  readonly findLibrary: () => OrtLibrary;
  readonly machineBytes: number;
}

export const thisSystem: DeviceSystem = {
  platform: process.platform,
  arch: process.arch,
  env: process.env,
  exists: existsSync,
  list: (folder) => {
    try {
      return readdirSync(folder);
    } catch {
      return [];
    }
  },
  readText: (path) => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return undefined;
    }
  },
  run: (file, args) => {
    try {
      return execFileSync(file, args, { encoding: "utf8", timeout: 10_000, stdio: ["ignore", "pipe", "ignore"] });
    } catch {
      return undefined;
    }
  },
  needed: neededLibraries,
  isLoadable: async (name) => {
    const koffi = await import("koffi");
    try {
      koffi.load(name).unload();
      return true;
    } catch {
      return false;
    }
  },
  findLibrary,
  machineBytes: totalmem(),
};

/** Absolute paths only, like those of libraries. */
const smiPaths = [
  "/usr/bin/nvidia-smi",
  "/usr/lib/wsl/lib/nvidia-smi",
  "/usr/local/nvidia/bin/nvidia-smi",
  "/opt/bin/nvidia-smi",
];
const cudaProvider = "libonnxruntime_providers_cuda.so";
/** The lines by which NVIDIA's package repository for Debian and Ubuntu installs a library, by the beginning of its name. */
const cudaPackages: readonly (readonly [name: RegExp, packageName: string])[] = [
  [/^libcudart\.so/, "cuda-cudart-MAJOR"],
  [/^libcublas(Lt)?\.so/, "libcublas-MAJOR"],
  [/^libcufft\.so/, "libcufft-MAJOR"],
  [/^libcurand\.so/, "libcurand-MAJOR"],
  [/^libnvrtc\.so/, "cuda-nvrtc-MAJOR"],
  [/^libcudnn/, "libcudnn9-cuda-MAJOR"],
];

const unusable = (kind: FoundDevice["kind"], reason: string, hint?: string, name?: string): FoundDevice => ({
  kind,
  isHardware: name !== undefined,
  reason,
  ...(hint === undefined ? {} : { hint }),
  ...(name === undefined ? {} : { name }),
});

/** onnxruntime's library, or the reason why it cannot be found. */
function libraryOf(system: DeviceSystem): OrtLibrary | { readonly reason: string; readonly hint?: string } {
  try {
    return system.findLibrary();
  } catch (error) {
    const { message, hint } = error as Error & { hint?: string };
    // the message of a ModelError ends with its hint in brackets; callers show the hint on a line of its own
    return hint === undefined ? { reason: message } : { reason: message.replace(` (${hint})`, ""), hint };
  }
}

export async function findCuda(system: DeviceSystem = thisSystem): Promise<FoundDevice> {
  const { platform, arch } = system;
  if (platform !== "linux" || arch !== "x64") {
    return unusable("cuda", `onnxruntime-node has a CUDA provider for linux x64 only, this is ${platform} ${arch}`);
  }
  const smi = smiPaths.find((path) => system.exists(path));
  const answer = smi && system.run(smi, ["--query-gpu=name,memory.free", "--format=csv,noheader,nounits"]);
  const [first = ""] = (answer ?? "").trim().split("\n");
  const comma = first.lastIndexOf(",");
  const freeMebibytes = Number(first.slice(comma + 1));
  if (comma <= 0) {
    return smi === undefined
      ? unusable(
          "cuda",
          "no NVIDIA driver is installed (nvidia-smi was not found)",
          "sudo apt-get install nvidia-driver",
        )
      : unusable(
          "cuda",
          "nvidia-smi reports no GPU: the driver is not running, or does not match the kernel",
          "nvidia-smi",
        );
  }
  const name = first.slice(0, comma).trim();
  const library = libraryOf(system);
  if ("reason" in library) return unusable("cuda", library.reason, library.hint, name);
  const provider = join(library.folder, cudaProvider);
  if (!system.exists(provider)) {
    return unusable(
      "cuda",
      `onnxruntime's CUDA provider (${cudaProvider}) is not installed`,
      "ONNXRUNTIME_NODE_INSTALL=cuda12 npm rebuild onnxruntime-node --ignore-scripts=false",
      name,
    );
  }
  const missing = await missingCuda(system, provider);
  if (missing.length > 0) {
    return unusable("cuda", `CUDA libraries are missing: ${missing.join(", ")}`, installLine(missing), name);
  }
  return {
    kind: "cuda",
    name,
    isHardware: true,
    ...(freeMebibytes > 0 ? { freeBytes: freeMebibytes * 2 ** 20 } : {}),
  };
}

/** Needed libraries that the loader does not find; libraries of onnxruntime itself are beside the provider. */
async function missingCuda(system: DeviceSystem, provider: string): Promise<string[]> {
  const missing: string[] = [];
  for (const name of system.needed(provider)) {
    if (!/^lib(cu|nv)/.test(name)) continue;
    if (!(await system.isLoadable(name))) missing.push(name);
  }
  return missing;
}

/** One line for all missing libraries; libraries of CUDA itself have its major version in their names, cuDNN has its own. */
function installLine(missing: readonly string[]): string {
  const major =
    missing.map((name) => /^lib(?:cudart|cublas\w*|nvrtc)\.so\.(\d+)/.exec(name)?.[1]).find(Boolean) ?? "12";
  const release = major === "13" ? "13-0" : "12-9";
  const packages = missing.flatMap((name) => {
    const found = cudaPackages.find(([pattern]) => pattern.test(name));
    return found ? [found[1].replace("MAJOR", found[1].startsWith("libcudnn") ? major : release)] : [];
  });
  return `sudo apt-get install ${[...new Set(packages)].join(" ")}   (from NVIDIA's package repository)`;
}

const icdFolders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];
const loaderFolders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
const softwareDrivers = /swiftshader|lvp_icd|lavapipe/i;
/** PCI vendors of GPUs; others (virtual displays, management controllers) cannot compute. */
const vendors: Readonly<Record<string, string>> = { "0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel" };
const vulkanHint = "sudo apt-get install libvulkan1 mesa-vulkan-drivers";

export function findWebGpu(system: DeviceSystem = thisSystem): FoundDevice {
  const library = libraryOf(system);
  if ("reason" in library) return unusable("webgpu", library.reason, library.hint);
  if (system.platform === "darwin") {
    return { kind: "webgpu", name: "GPU (Metal)", isHardware: true, freeBytes: Math.floor(system.machineBytes / 2) };
  }
  // Whether Direct3D has hardware is known only when a device is opened, so `auto` does not choose it.
  if (system.platform === "win32") return { kind: "webgpu", name: "GPU (Direct3D 12)", isHardware: false };
  if (system.platform !== "linux") return unusable("webgpu", `there is no WebGPU driver for ${system.platform}`);
  if (!loaderFolders.some((folder) => system.exists(join(folder, "libvulkan.so.1")))) {
    return unusable("webgpu", "the Vulkan loader (libvulkan.so.1) is not installed", vulkanHint);
  }
  const chosen = system.env["VK_DRIVER_FILES"] ?? system.env["VK_ICD_FILENAMES"];
  const drivers =
    chosen?.split(":") ?? icdFolders.flatMap((folder) => system.list(folder).map((name) => join(folder, name)));
  if (drivers.length === 0) return unusable("webgpu", "no Vulkan driver is installed", vulkanHint);
  const hardwareDriver = drivers.some((path) => !softwareDrivers.test(path));
  const gpu = hardwareDriver ? linuxGpu(system) : undefined;
  if (gpu) return { kind: "webgpu", isHardware: true, ...gpu };
  const software = drivers.find((path) => softwareDrivers.test(path));
  if (software === undefined) return unusable("webgpu", "there is no GPU in /sys/class/drm");
  return { kind: "webgpu", name: `software driver ${basename(software)}`, isHardware: false };
}

/** The first GPU that the kernel lists, with its memory where the driver reports it. */
function linuxGpu(system: DeviceSystem): { readonly name: string; readonly freeBytes?: number } | undefined {
  for (const card of system.list("/sys/class/drm")) {
    if (!/^card\d+$/.test(card)) continue;
    const file = (name: string): string | undefined => system.readText(`/sys/class/drm/${card}/device/${name}`)?.trim();
    const vendor = vendors[file("vendor") ?? ""];
    if (vendor === undefined) continue;
    const total = Number(file("mem_info_vram_total"));
    const used = Number(file("mem_info_vram_used"));
    return { name: `${vendor} GPU (Vulkan)`, ...(total > used ? { freeBytes: total - used } : {}) };
  }
  return undefined;
}

/** Both kinds of device, usable or not, in the order of `auto`. */
export const findDevices = async (system: DeviceSystem = thisSystem): Promise<readonly FoundDevice[]> => [
  await findCuda(system),
  findWebGpu(system),
];
