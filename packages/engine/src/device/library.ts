/**
 * Where onnxruntime's library is: inside the installed package `onnxruntime-node`, and nowhere else. The path is absolute, so that no
 * environment variable and no search path chooses another library.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { DeviceError } from "../errors.ts";
import { nativeHint } from "../runtime/ort.ts";

export interface OrtLibrary {
  /** Absolute. */
  readonly path: string;
  /** Its folder, where providers lie that are libraries of their own. */
  readonly folder: string;
  /** Of the package, which the library's own version must equal. */
  readonly version: string;
}

/** By platform. On macOS the name by which the package's own binding loads it: another name would be another copy in the process. */
const fileNames: Readonly<Record<string, string>> = {
  linux: "libonnxruntime.so.1",
  darwin: "libonnxruntime.1.dylib",
  win32: "onnxruntime.dll",
};

export interface LibraryPlaces {
  readonly platform?: string;
  readonly arch?: string;
  /** Of `onnxruntime-node`; absent where it is not installed. */
  readonly packageFile?: string;
}

const installed = (): string | undefined => {
  try {
    return createRequire(import.meta.url).resolve("onnxruntime-node/package.json");
  } catch {
    return undefined;
  }
};

/** @throws DeviceError when there is none for this platform. */
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
