/**
 * Starts a thread from a file of a package: in a built package, the file beside the caller's; in a source checkout, where Node cannot run
 * TypeScript, the file is bundled into an ignored cache folder first (esbuild is a development dependency).
 */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Worker, type WorkerOptions } from "node:worker_threads";

async function bundleSource(caller: string, name: string): Promise<URL> {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(`./${name}.ts`, caller))],
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    ignoreAnnotations: true, // a module that is also imported dynamically would be dropped as free of side effects
    sourcemap: "inline",
    logLevel: "error",
  });
  const folder = new URL("../.cache/", caller);
  const fileName = name.replaceAll("/", "-");
  const file = new URL(`${fileName}.mjs`, folder);
  // Test files start threads concurrently: write to a temporary name, then rename.
  const temporary = new URL(`${fileName}.${process.pid}.${Math.random().toString(36).slice(2)}.mjs`, folder);
  await mkdir(folder, { recursive: true });
  await writeFile(temporary, outputFiles[0]!.contents);
  await rename(temporary, file);
  return file;
}

const bundled = new Map<string, Promise<URL>>();

/**
 * Starts the thread whose code is the file `name` beside the caller's.
 *
 * @param caller - the caller's `import.meta.url`.
 */
export async function startThread(
  caller: string,
  name: string,
  options: Pick<WorkerOptions, "workerData" | "resourceLimits"> = {},
): Promise<Worker> {
  let file = new URL(`./${name}.js`, caller);
  if (caller.endsWith(".ts")) {
    const source = bundled.get(file.href) ?? bundleSource(caller, name);
    bundled.set(file.href, source);
    file = await source;
  }
  // The parent's flags (`--input-type`, a test runner's loaders) do not apply: the thread is a plain module.
  return new Worker(file, { ...options, execArgv: [] });
}
