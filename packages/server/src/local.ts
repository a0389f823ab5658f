/** A server inside this process, for `ServiceClient.local()` and for tests. It opens a socket only if `port` is set. */
import type { DeviceChoice, EngineOptions, Precision } from "@tinklet/engine";
import type { Studio } from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";
import { omitUndefined } from "@tinklet/wire/options";
import type { LogFormat } from "./log.ts";
import { resolveModels } from "./models.ts";
import { serve } from "./serve.ts";
import { createServer, type ModelSource } from "./server.ts";

/** Options of {@link createLocalServer}. */
export interface LocalServerOptions {
  /** Models to serve: folders, `.gguf` files, Hub ids, or `name=` one of these. @defaultValue the bundled model, `tinklet/base` */
  readonly models?: readonly string[];
  /** A single model, by name or as a source that opens its engine. */
  readonly model?: string | ModelSource;
  /** Folder for checkpoints and state. @defaultValue none: everything is kept in memory and lost with the server */
  readonly dataDir?: string;
  /** Refuse what the hosted service is known to refuse. @defaultValue false */
  readonly strict?: boolean;
  /** Also listen on this TCP port; 0 picks a free one. @defaultValue no socket */
  readonly port?: number;
  /** The studio, served on the port: `openStudio()` of `@tinklet/studio`. @defaultValue none */
  readonly studio?: Studio;
  /** Source of time, for tests. */
  readonly clock?: Clock;
  /** Where the engine computes: `auto` is CUDA, else WebGPU on real hardware, else the CPU. @defaultValue "cpu" */
  readonly device?: DeviceChoice | undefined;
  /** Arithmetic on a CUDA device. @defaultValue "float32" */
  readonly precision?: Precision | undefined;
  /** Options of the engine: runtime, threads, memory budget. */
  readonly engine?: EngineOptions;
  /** Log format. @defaultValue "off" */
  readonly log?: LogFormat;
}

/** A server in this process. */
export interface LocalServer {
  /** Base URL for clients. */
  readonly url: string;
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /** A link to the studio that signs a browser in once; `undefined` without a studio or a port. */
  readonly studioUrl: (place?: string) => string | undefined;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a server in this process.
 *
 * @example
 * ```ts
 * await using server = await createLocalServer({ model: "./my-model" });
 * const answer = await server.fetch(`${server.url}/healthz`);
 * ```
 */
export async function createLocalServer(options: LocalServerOptions = {}): Promise<LocalServer> {
  const { model, dataDir, clock, port, strict, studio, device, precision, log = "off" } = options;
  const engine: EngineOptions = { ...options.engine, ...omitUndefined({ device, precision }) };
  const named = [...(typeof model === "string" ? [model] : []), ...(options.models ?? [])];
  const models = typeof model === "object" ? [model] : await resolveModels(named, { engine });
  const common = { models, log, dataDir, ...omitUndefined({ strict, clock, studio, onNotice: engine.onNotice }) };
  if (port !== undefined) {
    const running = await serve({ ...common, port });
    return {
      url: running.url,
      fetch: asFetch(running.fetch),
      studioUrl: running.studioUrl,
      close: running.close,
      [Symbol.asyncDispose]: running.close,
    };
  }
  const server = await createServer({ ...common, allowedHosts: ["tinklet.local"] });
  const close = () => server.close();
  const studioUrl = () => undefined;
  return { url: "http://tinklet.local", fetch: asFetch(server.fetch), studioUrl, close, [Symbol.asyncDispose]: close };
}

const asFetch =
  (answer: (request: Request) => Promise<Response>): LocalServer["fetch"] =>
  (input, init) => {
    const request = input instanceof Request && init === undefined ? input : new Request(input, init);
    return answer(request);
  };
