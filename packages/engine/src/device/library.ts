/**
 * Finds onnxruntime's library inside the installed package `onnxruntime-node`. The path is absolute, so that neither an environment
 * variable nor a search path can select another library.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { DeviceError } from "../errors.ts";
import { nativeHint } from "../runtime/ort-runtime.ts";

export interface OrtLibrary {
  /** Absolute path. */
  readonly path: string;
  /** Its folder, which also contains providers in libraries of their own. */
  readonly folder: string;
  /** Version of the package; the library's own version must be equal. */
  readonly version: string;
}

/** By platform. On macOS, the name that the package's own binding loads: another name would load a second copy into the process. */
const fileNames: Readonly<Record<string, string>> = {
  linux: "libonnxruntime.so.1",
  darwin: "libonnxruntime.1.dylib",
  win32: "onnxruntime.dll",
};

export interface LibraryPlaces {
  readonly platform?: string;
  readonly arch?: string;
  /** `package.json` of `onnxruntime-node`; absent if it is not installed. */
  readonly packageFile?: string;
}

const installed = (): string | undefined => {
  try {
    return createRequire(import.meta.url).resolve("onnxruntime-node/package.json");
  } catch {
    return undefined;
  }
};

/** @throws DeviceError if there is no library for this platform */
export function findLibrary({
  platform = process.platform,
  arch = process.arch,
  packageFile = installed(),
}: LibraryPlaces = {}): OrtLibrary {
  if (packageFile === undefined) {
    throw new DeviceError("no_device", "devices need the package onnxruntime-node, which is not installed", {
      hint: nativeHint,
    });
  }
  const fileName = fileNames[platform];
  const folder = join(dirname(packageFile), "bin", "napi-v6", platform, arch);
  const path = join(folder, fileName ?? "");
  if (fileName === undefined || !existsSync(path)) {
    throw new DeviceError("no_device", `onnxruntime-node has no library for ${platform} ${arch}`);
  }
  const { version } = JSON.parse(readFileSync(packageFile, "utf8")) as { version: string };
  return { path, folder, version };
}
