/**
 * The stub server over real sockets: supports faults that need a socket (a reset within a body) and counts connections by pool.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Clock } from "@tinklet/wire/clock";
import type { StubAnswer } from "./stub-answer.ts";
import type { StubServer } from "./stub-server.ts";

/** A listening stub. */
export interface StubListener {
  readonly url: string;
  /** Number of open sockets. */
  readonly open: number;
  /** Maximum number of concurrently open sockets. */
  readonly mostOpen: number;
  /** Number of sockets opened in total. */
  readonly opened: number;
  /** The requested paths of each socket. */
  readonly paths: readonly ReadonlySet<string>[];
  close(): Promise<void>;
}

/** Serves a stub over HTTP on a free port of this machine, or on `port`. Close it when done. */
export async function listen(stub: StubServer, options: { readonly port?: number } = {}): Promise<StubListener> {
  const sockets = new Map<Socket, Set<string>>();
  const paths: Set<string>[] = [];
  let mostOpen = 0;
  const server = createServer((request, response) => {
    sockets.get(request.socket)?.add((request.url ?? "").replace(/^.*\/api\/v1/, "").replace(/\?.*$/, ""));
    void serve(stub, request, response);
  });
  server.keepAliveTimeout = 60_000;
  server.on("connection", (socket) => {
    const seen = new Set<string>();
    sockets.set(socket, seen);
    paths.push(seen);
    mostOpen = Math.max(mostOpen, sockets.size);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) =>
    server.listen({ port: options.port ?? 0, host: "127.0.0.1", backlog: 4096 }, resolve),
  );
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    get open() {
      return sockets.size;
    },
    get mostOpen() {
      return mostOpen;
    },
    get opened() {
      return paths.length;
    },
    paths,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets.keys()) socket.destroy();
      }),
  };
}

async function serve(stub: StubServer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const pieces: Uint8Array[] = [];
  try {
    for await (const piece of request) pieces.push(piece as Uint8Array);
  } catch {
    return; // the client disconnected
  }
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value ?? ""),
    ]),
  );
  const body = new Uint8Array(Buffer.concat(pieces));
  deliver(
    await stub.handle({ method: request.method ?? "GET", path: request.url ?? "/", headers, body }),
    response,
    stub.clock,
  );
}

function deliver({ status, headers, body, delivery }: StubAnswer, response: ServerResponse, clock: Clock): void {
  const half = body.subarray(0, Math.ceil(body.length / 2));
  if (delivery === "reset") {
    response.socket?.resetAndDestroy();
    return;
  }
  if (delivery === "stall") return;
  response.writeHead(status, status === 204 ? headers : { ...headers, "content-length": String(body.length) });
  switch (delivery) {
    case "whole":
      response.end(body);
      return;
    case "reset_mid_body":
      response.write(half, () => response.socket?.resetAndDestroy());
      return;
    case "stall_mid_body":
      response.write(half);
      return;
    case "slow_loris": {
      let at = 0;
      const drip = () => {
        if (response.destroyed || at >= body.length) return void response.end();
        response.write(body.subarray(at, ++at));
        clock.timer(1_000, drip);
      };
      drip();
    }
  }
}
