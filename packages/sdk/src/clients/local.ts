/**
 * Starts `@tinklet/server` inside this process. The package is an optional peer and heavy, so it is loaded here, when asked for,
 * and nowhere else.
 */

import { TinkerError } from "@tinklet/wire/errors";
import { type OptionNames, omitUndefined } from "@tinklet/wire/options";
import { packageVersion } from "../transport/environment.ts";
import type { FetchLike } from "../transport/exchange.ts";
import { type ClientOptions, checkClientOptions } from "./options.ts";

/** Options of {@link ServiceClient.local}; they go to the server as they are. */
export interface LocalOptions {
  /**
   * Folder for runs and checkpoints, which one server at a time may use; `memory` keeps nothing. The command line's `--local`
   * and `tinklet serve` have the same default. @defaultValue `TINKLET_DATA_DIR`, else `~/.tinklet`
   */
  readonly dataDir?: string | undefined;
  /** Models to serve: folders, files or Hub ids, or `name=path`. @defaultValue the bundled model, `tinklet/base` */
  readonly models?: readonly string[] | undefined;
  /** Refuse what the hosted service is known to refuse, so that what works here works there. @defaultValue false */
  readonly strict?: boolean | undefined;
}

const localNames: OptionNames<LocalOptions> = { dataDir: true, models: true, strict: true };

/** A running server, as far as the client cares. */
export interface LocalServer {
  /** Where it listens; when absent, `fetch` reaches it without a socket. */
  readonly url?: string;
  readonly fetch?: FetchLike;
  close(): Promise<void>;
}

const serverPackage = "@tinklet/server";
/** Any well-formed key works on loopback. */
const localKey = "tml-local";

export async function startLocal(
  options: LocalOptions & ClientOptions,
  load: () => Promise<unknown> = () => import(/* webpackIgnore: true */ /* @vite-ignore */ serverPackage),
): Promise<{ readonly server: LocalServer; readonly client: ClientOptions }> {
  checkClientOptions("ServiceClient.local", options, localNames);
  let module: { readonly startLocalServer?: (options: LocalOptions) => Promise<LocalServer> };
  try {
    module = (await load()) as typeof module;
  } catch (cause) {
    const { code, message } = cause as { readonly code?: string; readonly message: string };
    // A package that is there and lacks one of its own is another failure, which names that one.
    const missing = /'([^']+)'/.exec(message)?.[1] ?? serverPackage;
    if (code === "ERR_MODULE_NOT_FOUND" && !missing.includes(serverPackage)) throw cause;
    throw new TinkerError(`ServiceClient.local() needs the package ${serverPackage}, which is not installed.`, {
      code: "missing_peer",
      hint: "npm install tinklet   (the SDK with the local server and the bundled model)",
      cause,
    });
  }
  if (module.startLocalServer === undefined) {
    throw new TinkerError(`The installed ${serverPackage} does not fit this version of the SDK, ${packageVersion}.`, {
      code: "missing_peer",
      hint: `npm install ${serverPackage}@${packageVersion}`,
    });
  }
  const { dataDir, models, strict, ...client } = options;
  const { localDataDir } = await import("./data-dir.node.ts");
  const folder = localDataDir(dataDir);
  const server = await module.startLocalServer({
    ...omitUndefined({ dataDir: folder }),
    ...omitUndefined({ models, strict }),
  });
  const reach = server.url === undefined ? { baseUrl: "http://tinklet.local" } : { baseUrl: server.url };
  return {
    server,
    client: { apiKey: localKey, ...reach, ...omitUndefined({ fetch: server.fetch }), ...omitUndefined(client) },
  };
}
