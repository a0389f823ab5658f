/**
 * The real executable for tests: `bin/tinklet.mjs` over the command line's sources, bundled once per test file (a second, where
 * a whole build takes many), and a server over the fake engine for it to talk to.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type ServeOptions, serve } from "../../packages/server/src/serve.ts";
import { fakeEngine } from "../../packages/server/src/testing/fake-engine.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
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
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves with the first line of stdout that fits. */
  line(fits: (line: string) => boolean): Promise<string>;
}

export class Executable {
  readonly folder: string;
  readonly work: string;
  readonly #bin: string;

  private constructor(folder: string, work: string) {
    this.folder = folder;
    this.work = work;
    this.#bin = join(folder, "bin", "tinklet.mjs");
  }

  static async build(): Promise<Executable> {
    const cache = join(root, "node_modules", ".cache");
    mkdirSync(cache, { recursive: true });
    const folder = mkdtempSync(join(cache, "tinklet-cli-"));
    mkdirSync(join(folder, "bin"));
    copyFileSync(source("tinklet/bin/tinklet.mjs"), join(folder, "bin", "tinklet.mjs"));
    copyFileSync(source("tinklet/package.json"), join(folder, "package.json"));
    await build({
      entryPoints: { "cli/main": source("tinklet/src/cli/main.ts") },
      outdir: join(folder, "dist"),
      chunkNames: "cli/[name]-[hash]",
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      target: "node20",
      alias: { tinklet: source("tinklet/src/index.ts"), "@tinklet/cookbook": source("cookbook/src/index.ts") },
      external: [
        "@tinklet/server",
        "@tinklet/base-model",
        "@huggingface/*",
        "undici",
        "@opentelemetry/*",
        "@bokuweb/*",
      ],
      logLevel: "error",
    });
    return new Executable(folder, mkdtempSync(join(tmpdir(), "tinklet-cli-")));
  }

  /** Starts it. Nothing of the caller's environment that concerns servers or colours gets through. */
  start(
    args: readonly string[],
    options: { readonly env?: Record<string, string>; readonly stdin?: string; readonly pty?: boolean } = {},
  ): Running {
    const env = {
      PATH: process.env["PATH"] ?? "",
      HOME: this.work,
      HF_HUB_OFFLINE: "1",
      TERM: "xterm-256color",
      ...options.env,
    };
    const program = [this.#bin, ...args];
    const quoted = [process.execPath, ...program].map((part) => `'${part.replaceAll("'", "'\\''")}'`).join(" ");
    const child = options.pty
      ? spawn("script", ["-qec", quoted, "/dev/null"], { env, cwd: this.work })
      : spawn(process.execPath, program, { env, cwd: this.work });
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
    child.stdin.on("error", () => {}).end(options.stdin ?? "");
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

  run(args: readonly string[], options: Parameters<Executable["start"]>[1] = {}): Promise<Ended> {
    return this.start(args, options).ended;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
    rmSync(this.work, { recursive: true, force: true });
  }
}

/** A server over the fake engine, on a free port. */
export function fakeServer(options: Partial<ServeOptions> & { readonly beforeCall?: () => Promise<void> } = {}) {
  const { beforeCall, ...rest } = options;
  const engine = { vocabSize: 4096, contextLength: 512, ...(beforeCall === undefined ? {} : { beforeCall }) };
  return serve({
    models: [{ name: baseModel, open: async () => fakeEngine(engine), tokenizerId: tokenizer }],
    port: 0,
    log: "off",
    ...rest,
  });
}
