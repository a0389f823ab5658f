/**
 * Finds the server of `ServiceClient.local()` and of the command line's `--local`: the `tinklet serve` that uses the data folder, else a
 * new `@tinklet/server` inside this process. The package is an optional peer and large, so it is imported on first use, only here.
 */

import { TinkerError } from "@tinklet/wire/errors";
import { type OptionNames, omitUndefined } from "@tinklet/wire/options";
import { localKey } from "@tinklet/wire/running-server";
import { packageVersion } from "../transport/environment.ts";
import type { FetchLike } from "../transport/exchange.ts";
import { type ClientOptions, checkClientOptions } from "./options.ts";
import type { FoundServer } from "./running-server.node.ts";

/** Options of {@link ServiceClient.local}, passed to the server unchanged. */
export interface LocalOptions {
  /**
   * Folder of runs and checkpoints, used by one server at a time; `memory` stores nothing on disk. The command line's `--local` and
   * `tinklet serve` have the same default. @defaultValue `TINKLET_DATA_DIR`, else `~/.tinklet`
   */
  readonly dataDir?: string | undefined;
  /** Models to serve: folders, files or Hub ids, or `name=path`. @defaultValue the bundled model, `tinklet/base` */
  readonly models?: readonly string[] | undefined;
  /**
   * Where the server computes: `auto` is CUDA, else WebGPU on a hardware GPU, else the CPU; `cuda` and `webgpu` fail with `no_device` if
   * they cannot be used. docs/gpu.md lists what was tried. @defaultValue "cpu"
   */
  readonly device?: "auto" | "cpu" | "cuda" | "webgpu" | undefined;
  /**
   * Arithmetic on a CUDA device: `float32` (exact products), `tf32` or `bfloat16` (faster, less precise; docs/gpu.md has the measured errors).
   * @defaultValue "float32"
   */
  readonly precision?: "float32" | "tf32" | "bfloat16" | undefined;
  /** Reject requests that the hosted service is known to reject, so that programs tested here work there. @defaultValue false */
  readonly strict?: boolean | undefined;
}

const localNames: OptionNames<LocalOptions> = {
  dataDir: true,
  device: true,
  models: true,
  precision: true,
  strict: true,
};

/** The parts of a running server that the client uses. */
export interface LocalServer {
  /** URL of its socket; without one, `fetch` reaches it in process. */
  readonly url?: string;
  readonly fetch?: FetchLike;
  close(): Promise<void>;
}

const serverPackage = "@tinklet/server";

/** A local server, and the client options that reach it. */
export interface StartedLocal {
  readonly server: LocalServer;
  readonly client: ClientOptions;
  /** The `tinklet serve` that uses the data folder; undefined if a server was started in this process. */
  readonly found?: FoundServer;
}

/** @param load - imports the server's package; callers with more options for the server wrap its `startLocalServer` */
export async function startLocal(
  options: LocalOptions & ClientOptions,
  load: () => Promise<unknown> = () => import(/* webpackIgnore: true */ /* @vite-ignore */ serverPackage),
): Promise<StartedLocal> {
  checkClientOptions("ServiceClient.local", options, localNames);
  const { dataDir, device, models, precision, strict, ...client } = options;
  const { localDataDir, programName } = await import("./data-dir.node.ts");
  const folder = localDataDir(dataDir);
  // Names runs without a name; sent to local servers only.
  const session = { userMetadata: { ...omitUndefined({ program: programName() }), ...client.userMetadata } };
  if (folder !== undefined) {
    const { findRunningServer } = await import("./running-server.node.ts");
    const found = await findRunningServer(folder, { models, strict }, omitUndefined({ clock: client.clock }));
    if (found !== undefined) {
      const { url: baseUrl, apiKey } = found;
      const server = { url: baseUrl, close: async () => {} };
      return { server, found, client: { apiKey, baseUrl, ...omitUndefined(client), ...session } };
    }
  }
  let module: { readonly startLocalServer?: (options: LocalOptions) => Promise<LocalServer> };
  try {
    module = (await load()) as typeof module;
  } catch (cause) {
    const { code, message } = cause as { readonly code?: string; readonly message: string };
    // The package may be installed and lack a dependency of its own; that error names the dependency.
    const missing = /'([^']+)'/.exec(message)?.[1] ?? serverPackage;
    if (code === "ERR_MODULE_NOT_FOUND" && !missing.includes(serverPackage)) throw cause;
    throw new TinkerError(`ServiceClient.local() needs the package ${serverPackage}, which is not installed.`, {
      code: "missing_peer",
      hint: "npm install tinklet   (the SDK with the local server and the bundled model)",
      cause,
    });
  }
  if (module.startLocalServer === undefined) {
    throw new TinkerError(
      `The installed ${serverPackage} does not match this version of the SDK (${packageVersion}).`,
      {
        code: "missing_peer",
        hint: `npm install ${serverPackage}@${packageVersion}`,
      },
    );
  }
  const server = await module.startLocalServer({
    ...omitUndefined({ dataDir: folder }),
    ...omitUndefined({ device, models, precision, strict }),
  });
  const reach = server.url === undefined ? { baseUrl: "http://tinklet.local" } : { baseUrl: server.url };
  return {
    server,
    client: {
      apiKey: localKey,
      ...reach,
      ...omitUndefined({ fetch: server.fetch }),
      ...omitUndefined(client),
      ...session,
    },
  };
}
