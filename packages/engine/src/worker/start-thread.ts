/**
 * Starts a thread from a file of a package. In the built package that is the file beside the caller's. In a source checkout, where Node
 * cannot run TypeScript, the file is bundled first (esbuild is a development dependency) into an ignored cache folder.
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
    ignoreAnnotations: true, // a module that is also imported lazily would be left out for having no side effects
    sourcemap: "inline",
    logLevel: "error",
  });
  const folder = new URL("../.cache/", caller);
  const fileName = name.replaceAll("/", "-");
  const file = new URL(`${fileName}.mjs`, folder);
  // Test files start threads side by side: write aside, then move into place.
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
  // Flags of the parent (`--input-type`, a test runner's loaders) are not ours: the thread is a plain module.
  return new Worker(file, { ...options, execArgv: [] });
}
