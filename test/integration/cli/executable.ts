/**
 * The real executable for tests: `bin/tinklet.mjs` over the command line's sources, bundled once per test file (a second, where
 * a whole build takes many), in a pipe or on a terminal, and a server over the fake engine for it to talk to.
 */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build } from "esbuild";
import { writeTinyModel } from "../../../packages/engine/src/testing/tiny-model.ts";
import { type ServeOptions, serve } from "../../../packages/server/src/serve.ts";
import { type FakeEngineOptions, fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const source = (path: string) => join(root, "packages", path);

export const baseModel = "test/model";
/** A folder with a tokenizer and a chat template. */
export const tokenizer = source("base-model");

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that is running. */
export interface Running {
  readonly child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<Ended>;
  /** Resolves with the first line of stdout that fits. A terminal has stderr there too. */
  line(fits: (line: string) => boolean): Promise<string>;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** What it reads; then its input ends. `null` leaves the input open. */
  readonly stdin?: string | null;
  /** On a terminal of its own (`script`). */
  readonly pty?: boolean;
}

/** Whether terminals can be had: `script` of util-linux. */
export const hasPty = spawnSync("script", ["--version"]).status === 0;

const shellQuoted = (words: readonly string[]) => words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");

/** How sources of this repository become files that plain Node runs. @param server - with the local server and its engine */
const bundling = (server: boolean): BuildOptions => ({
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20",
  tsconfig: join(root, "tsconfig.json"), // its paths name the sources of our packages
  external: [
    ...(server ? [] : ["@tinklet/server", "@tinklet/engine", "@tinklet/conformance"]),
    "@tinklet/base-model",
    "@tinklet/studio",
    "@huggingface/*",
    "undici",
    "@opentelemetry/*",
    "@bokuweb/*",
    "libsql",
    "onnxruntime-node",
    "onnxruntime-web",
    "esbuild",
  ],
  banner: { js: 'import { createRequire as __cr } from "node:module"; const require = __cr(import.meta.url);' },
  logLevel: "error",
});

export class Executable {
  readonly folder: string;
  readonly work: string;
  readonly #bin: string;

  private constructor(folder: string, work: string) {
    this.folder = folder;
    this.work = work;
    this.#bin = join(folder, "bin", "tinklet.mjs");
  }

  /**
   * @param options.server - bundles the local server, the engine and the conformance kit from their sources too, and installs a
   *   tiny stand-in for the bundled model: the real data and tokenizer over random weights.
   */
  static async build(options: { readonly server?: boolean } = {}): Promise<Executable> {
    const cache = join(root, "node_modules", ".cache");
    mkdirSync(cache, { recursive: true });
    const folder = mkdtempSync(join(cache, "tinklet-cli-"));
    mkdirSync(join(folder, "bin"));
    copyFileSync(source("tinklet/bin/tinklet.mjs"), join(folder, "bin", "tinklet.mjs"));
    copyFileSync(source("tinklet/package.json"), join(folder, "package.json"));
    if (options.server) await installTinyBaseModel(join(folder, "node_modules", "@tinklet", "base-model"));
    await build({
      ...bundling(options.server ?? false),
      entryPoints: {
        "cli/main": source("tinklet/src/cli/main.ts"),
        // The engine and the server look for their threads beside the file that they were loaded from.
        ...(options.server
          ? {
              "cli/worker/worker": source("engine/src/worker/worker.ts"),
              "cli/side-worker": source("server/src/thread/side-worker.ts"),
              "cli/server": source("server/src/index.ts"),
              ...recipes(),
            }
          : {}),
      },
      outdir: join(folder, "dist"),
      chunkNames: "cli/[name]-[hash]",
    });
    if (options.server) {
      cpSync(source("cookbook/recipes"), join(folder, "recipes"), { recursive: true });
      installServer(join(folder, "node_modules", "@tinklet", "server"));
      await installStudio(join(folder, "node_modules", "@tinklet", "studio"));
    }
    return new Executable(folder, mkdtempSync(join(tmpdir(), "tinklet-cli-")));
  }

  /** Makes a program of a user's ready to run beside the tool, as if the packages were installed. @returns its path */
  async program(name: string, text: string): Promise<string> {
    const at = join(this.work, `${name}.mjs`);
    writeFileSync(at, text);
    const outdir = join(this.folder, "dist", "cli");
    await build({ ...bundling(true), entryPoints: { [name]: at }, outdir, chunkNames: "[name]-[hash]" });
    return join(outdir, `${name}.js`);
  }

  /** What a shell must run to start it. */
  command(args: readonly string[]): string {
    return shellQuoted([process.execPath, this.#bin, ...args]);
  }

  /** Nothing of the caller's environment that concerns servers or colours gets through. */
  environment(env: Readonly<Record<string, string>> = {}): Record<string, string> {
    const own = { PATH: process.env["PATH"] ?? "", HOME: this.work, HF_HUB_OFFLINE: "1", TERM: "xterm-256color" };
    return { ...own, ...env };
  }

  start(args: readonly string[], options: StartOptions = {}): Running {
    const settings = { env: this.environment(options.env), cwd: this.work };
    const child = options.pty
      ? spawn("script", ["-qec", `exec ${this.command(args)}`, "/dev/null"], settings)
      : spawn(process.execPath, [this.#bin, ...args], settings);
    const texts = { stdout: "", stderr: "" };
    const waiting: { fits: (line: string) => boolean; resolve: (line: string) => void }[] = [];
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      texts.stdout += text;
      for (const one of [...waiting]) {
        const found = texts.stdout.split("\n").find(one.fits);
        if (found === undefined) continue;
        waiting.splice(waiting.indexOf(one), 1);
        one.resolve(found);
      }
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      texts.stderr += text;
    });
    child.stdin.on("error", () => {});
    if (options.stdin !== null) child.stdin.end(options.stdin ?? "");
    const ended = new Promise<Ended>((resolve) => child.on("close", (code) => resolve({ code, ...texts })));
    const line = (fits: (line: string) => boolean) =>
      Promise.race([
        new Promise<string>((resolve) => waiting.push({ fits, resolve })),
        ended.then(({ stdout, stderr }) => {
          const found = stdout.split("\n").find(fits);
          if (found === undefined) throw new Error(`ended without that line:\n${stdout}\n${stderr}`);
          return found;
        }),
      ]);
    return { child, ended, line };
  }

  run(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
    return this.start(args, options).ended;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
    rmSync(this.work, { recursive: true, force: true });
  }
}

/** A package like `@tinklet/base-model` whose weights are random and tiny, so that a whole quickstart takes a second. */
async function installTinyBaseModel(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await writeTinyModel(folder, {
    model_type: "qwen3",
    architectures: ["Qwen3ForCausalLM"],
    vocab_size: 4096,
    max_position_embeddings: 256,
  });
  for (const name of ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "data"])
    cpSync(join(tokenizer, name), join(folder, name), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "name": "@tinklet/base-model", "version": "0.1.0" }\n');
}

/** The cookbook's recipes, each an entry: they are loaded by name, as files. */
const recipes = (): Record<string, string> =>
  Object.fromEntries(
    readdirSync(source("cookbook/recipes"))
      .filter((file) => file.endsWith(".ts"))
      .map((file) => [`recipes/${file.slice(0, -3)}`, join(source("cookbook/recipes"), file)]),
  );

/** The studio from its sources, with its page. */
async function installStudio(folder: string): Promise<void> {
  const { buildPage } = await import("../../../packages/studio/build-page.ts");
  const entryPoints = { index: source("studio/src/index.ts") };
  await build({ entryPoints, outdir: join(folder, "dist"), bundle: true, format: "esm", platform: "node" });
  await buildPage(join(folder, "dist", "page"));
  copyFileSync(source("studio/package.json"), join(folder, "package.json"));
}

/** `@tinklet/server` under its name, for programs that load it as an installed package: the bundle of its sources. */
function installServer(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const manifest = { name: "@tinklet/server", version: "0.1.0", type: "module", exports: "./index.js" };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest)}\n`);
  writeFileSync(join(folder, "index.js"), 'export * from "../../../dist/cli/server.js";\n');
}

/** A server over the fake engine, on a free port. */
export function fakeServer(
  options: Partial<ServeOptions> & Pick<FakeEngineOptions, "beforeCall" | "beforeToken"> = {},
) {
  const { beforeCall, beforeToken, ...rest } = options;
  const hooks = {
    ...(beforeCall === undefined ? {} : { beforeCall }),
    ...(beforeToken === undefined ? {} : { beforeToken }),
  };
  const engine = { vocabSize: 4096, contextLength: 512, ...hooks };
  return serve({
    models: [{ name: baseModel, open: async () => fakeEngine(engine), tokenizerId: tokenizer }],
    port: 0,
    log: "off",
    ...rest,
  });
}
