/**
 * Starts the engine's thread. In the built package that is the file beside this one. In a source checkout, where Node cannot run
 * TypeScript, the worker is bundled first (esbuild is a development dependency) into an ignored cache folder.
 */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

async function bundleSource(): Promise<URL> {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("./worker.ts", import.meta.url))],
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    sourcemap: "inline",
    logLevel: "error",
  });
  const folder = new URL("../.cache/", import.meta.url);
  const file = new URL("worker.mjs", folder);
  // Test files start engines side by side: write aside, then move into place.
  const temporary = new URL(`worker.${process.pid}.${Math.random().toString(36).slice(2)}.mjs`, folder);
  await mkdir(folder, { recursive: true });
  await writeFile(temporary, outputFiles[0]!.contents);
  await rename(temporary, file);
  return file;
}

let bundled: Promise<URL> | undefined;

export async function startWorker(workerData: unknown): Promise<Worker> {
  let file = new URL("./worker.js", import.meta.url);
  if (import.meta.url.endsWith(".ts")) {
    bundled ??= bundleSource();
    file = await bundled;
  }
  // Flags of the parent (`--input-type`, a test runner's loaders) are not ours: the worker is a plain module.
  return new Worker(file, { workerData, execArgv: [] });
}
