/**
 * The server on a socket: binding, keep-alive and shutdown. On loopback any well-formed key is accepted; on any other address the server
 * starts only if keys are configured.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { systemClock } from "@tinklet/wire/clock";
import { TinkerError } from "@tinklet/wire/errors";
import { challengeHeader, maxChallengeLength, proofHeader } from "@tinklet/wire/running-server";
import { Connections } from "./connections.ts";
import { hashApiKey, localTenant } from "./http/access/auth.ts";
import { parsePublicUrl } from "./http/access/public-url.ts";
import { defaultLimits } from "./limits.ts";
import { recordedModels } from "./models.ts";
import { createServer, recordFailed, type ServerOptions } from "./server.ts";
import { newSecret, proofOf, writeRecord } from "./store/server-record.ts";
import { retentionText } from "./store/tables/retention.ts";

/** Options of {@link serve}. */
export interface ServeOptions extends ServerOptions {
  /** Address to listen on. @defaultValue "127.0.0.1" */
  readonly host?: string;
  /** TCP port; 0 picks a free one. @defaultValue 8471 */
  readonly port?: number;
  /**
   * Lets programs of the same user that use the same data folder find this server and use it. `modelNames` are the arguments of
   * {@link resolveModels}. Ignored without a data folder. @defaultValue not attachable
   */
  readonly attachable?: { readonly modelNames: readonly string[] } | undefined;
}

/** A server that listens on a socket. */
export interface RunningServer {
  /** Names of the devices that the engines compute on. */
  readonly device: string;
  /** Base URL for clients on this machine (`TINKER_BASE_URL`). */
  readonly url: string;
  /** Base URL for clients on other machines: `publicUrl` of the options. @defaultValue `url` */
  readonly publicUrl: string;
  readonly port: number;
  /** Answers a request within this process, without the socket. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** A link to the studio that signs a browser in once; `undefined` without a studio. @param place - path within the studio, such as `/runs/ID` */
  readonly studioUrl: (place?: string) => string | undefined;
  /** Number of requests that a crash interrupted and that run again now. */
  readonly recovered: { readonly requests: number };
  /** What the server deletes by itself, and when, for people. */
  readonly retention: string;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Longer than any client keeps an idle connection, so that no request is sent on a socket that the server has just closed. */
const keepAliveMs = 125_000;
/** Time for the head of a request to arrive; a client that takes longer holds a socket without using it. Idle connections do not count. */
const headMs = 30_000;

/**
 * Starts a server and listens.
 *
 * @throws Error when the host or the public URL is not loopback and no keys are configured, or when the port is in use; InvalidInputError
 * when `publicUrl` is not an origin; {@link StoreError} when the data folder cannot be used.
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { host = "127.0.0.1", port = 8471, attachable, ...rest } = options;
  const loopback = isLoopback(host);
  if (!loopback && (options.apiKeys ?? []).length === 0) {
    throw new TinkerError(`host is ${host}, which the network can reach, and no keys are configured.`, {
      code: "no_keys",
      hint: ["Configure keys (", { name: "apiKeys" }, "), or listen on 127.0.0.1."],
    });
  }
  const publicUrl = options.publicUrl === undefined ? undefined : parsePublicUrl(options.publicUrl);
  if (publicUrl !== undefined && !isLoopback(publicUrl.hostname) && (options.apiKeys ?? []).length === 0) {
    throw new TinkerError(
      `The public URL is ${publicUrl.origin}, which the network can reach, and no keys are configured.`,
      { code: "no_keys", hint: ["Configure keys (", { name: "apiKeys" }, "), or leave the public URL out."] },
    );
  }
  const secret = attachable === undefined || rest.dataDir === undefined ? undefined : newSecret();
  // With configured keys the secret is the key of the local tenant; without them every key is.
  const localKeys = secret === undefined ? [] : [{ name: localTenant, sha256: hashApiKey(secret) }];
  const keys = rest.apiKeys === undefined || rest.apiKeys.length === 0 ? [] : [...rest.apiKeys, ...localKeys];
  const server = await createServer({ openProbes: loopback, ...rest, apiKeys: keys });
  const limits = { ...defaultLimits, ...rest.limits };
  const connections = new Connections(limits);
  const socket = createAdaptorServer({
    fetch: async (request, env) => {
      const { incoming, outgoing } = env as { incoming: IncomingMessage; outgoing: ServerResponse };
      const response = await server.fetch(request, connections.peerOf(incoming, outgoing));
      const challenge = request.headers.get(challengeHeader) ?? "";
      if (secret !== undefined && challenge !== "" && challenge.length <= maxChallengeLength)
        response.headers.set(proofHeader, proofOf(secret, challenge));
      // From here on a socket without traffic has a client that does not read: complete bodies are written at once, and streams send
      // heartbeats. Half the limit, because Node closes the socket at the second timeout: bytes written since the last one restart it.
      outgoing.socket?.setTimeout(Math.ceil(limits.answerStallMs / 2));
      return response;
    },
  }) as Server;
  socket.on("connection", (each) => connections.add(each));
  socket.keepAliveTimeout = keepAliveMs;
  socket.headersTimeout = headMs;
  socket.requestTimeout = 300_000;
  socket.timeout = 0;
  try {
    await listen(socket, host, port);
  } catch (error) {
    await server.close();
    const isInUse = (error as { code?: string }).code === "EADDRINUSE";
    throw isInUse
      ? new TinkerError(`Port ${port} of ${host} is in use, perhaps by another server.`, {
          code: "port_in_use",
          hint: "Choose another port, or 0 for a free one.",
        })
      : error;
  }
  const bound = (socket.address() as AddressInfo).port;
  const name = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "[::1]" : isIP(host) === 6 ? `[${host}]` : host;
  const url = `http://${name}:${bound}`;
  if (secret !== undefined && rest.dataDir !== undefined) {
    const models = recordedModels(attachable?.modelNames ?? []);
    const attach = { url, secret, models, strict: rest.strict ?? false, studio: rest.studio !== undefined };
    await writeRecord(rest.dataDir, attach).catch(recordFailed(server.log));
  }
  server.log.info("server.started", { url, models: options.models.map((model) => model.name).join(" ") });

  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= (async () => {
      const closed = new Promise<void>((resolve) => socket.close(() => resolve()));
      await server.close(); // ends open polls, so that their connections become idle
      socket.closeIdleConnections();
      const stopForcing = systemClock({ ref: true }).timer(1000, () => socket.closeAllConnections());
      await closed;
      stopForcing();
    })();
    return closing;
  };
  const outerUrl = publicUrl?.origin ?? url;
  const studioUrl = (place?: string) => {
    const path = server.studioPath(place);
    return path === undefined ? undefined : `${outerUrl}${path}`;
  };
  const { fetch, recovered, device } = server;
  return {
    device,
    url,
    publicUrl: outerUrl,
    port: bound,
    fetch,
    studioUrl,
    recovered,
    retention: retentionText(limits),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Whether a host name or address is loopback (`localhost`, `127.0.0.0/8`, `::1`). */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);

function listen(socket: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once("error", reject);
    socket.listen(port, host, () => {
      socket.off("error", reject);
      resolve();
    });
  });
}
