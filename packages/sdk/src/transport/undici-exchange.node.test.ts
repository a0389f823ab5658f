import { getEventListeners } from "node:events";
import { createServer, request as httpRequest, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { systemClock } from "@tinklet/wire/clock";
import { APIConnectionError, APITimeoutError, ResponseValidationError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { FakeClock } from "@tinklet/wire/testing";
import { afterEach, describe, expect, it, vi } from "vitest";
import { failure } from "../testing/harness.ts";
import type { HttpRequest } from "./exchange.ts";
import { createExchange, defaultMaxSockets } from "./pools.ts";
import { tlsName, UndiciExchange } from "./undici-exchange.node.ts";

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const close of open.splice(0)) await close();
});

/** A server on a free port, with its open sockets counted. */
async function serve(listener: RequestListener) {
  const server = createServer(listener);
  let opened = 0;
  server.on("connection", () => opened++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server, opened: () => opened };
}

function exchange(options: { maxResponseBytes?: number; train?: number } = {}) {
  const made = new UndiciExchange({
    clock: systemClock({ ref: true }),
    maxSockets: { ...defaultMaxSockets, ...omitUndefined({ train: options.train }) },
    maxResponseBytes: options.maxResponseBytes,
  });
  open.unshift(() => made.close());
  return made;
}

const asking = (url: string, more: Partial<HttpRequest> = {}): HttpRequest => ({
  method: "POST",
  url: `${url}/api?x=1`,
  headers: { "x-a": "b", "content-type": "application/json" },
  body: "{}",
  pool: "train",
  timeoutMs: 5_000,
  signal: undefined,
  ...more,
});
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

describe("UndiciExchange", () => {
  it("sends method, path, headers and body, and reads the answer", async () => {
    const { url } = await serve((request, response) => {
      const pieces: Buffer[] = [];
      request.on("data", (piece: Buffer) => pieces.push(piece));
      request.on("end", () => {
        response.setHeader("x-many", ["1", "2"]);
        response.writeHead(201);
        response.end(`${request.method} ${request.url} ${request.headers["x-a"]} ${Buffer.concat(pieces)}`);
      });
    });
    const answer = await exchange().send(asking(url));
    expect([answer.status, answer.header("x-many"), answer.header("nope"), text(answer.body)]).toEqual([
      201,
      "1, 2",
      undefined,
      "POST /api?x=1 b {}",
    ]);
    const bytes = await exchange().send(asking(url, { body: Uint8Array.of(65, 66) }));
    expect(text(bytes.body)).toContain("AB");
  });

  it("sends content-length 0 with a POST without a body", async () => {
    const { url } = await serve((request, response) => response.end(request.headers["content-length"]));
    expect(text((await exchange().send(asking(url, { body: undefined }))).body)).toBe("0");
  });

  it("M-801: each purpose has sockets of its own, as many as it may", async () => {
    const waiting: (() => void)[] = [];
    const { url, opened } = await serve((_request, response) => waiting.push(() => response.end("{}")));
    const one = exchange({ train: 2 });
    const calls = [1, 2, 3, 4].map(() => one.send(asking(url)));
    await vi.waitFor(() => expect(waiting).toHaveLength(2));
    expect(opened()).toBe(2); // the other two wait for a socket
    const telemetry = one.send(asking(url, { pool: "telemetry" }));
    await vi.waitFor(() => expect(waiting).toHaveLength(3));
    expect(opened()).toBe(3); // and are not in another purpose's way
    while (waiting.length > 0) {
      waiting.shift()?.();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await Promise.all([...calls, telemetry]);
    expect(opened()).toBe(3);
  });

  it("offers gzip and deflate, unless the caller says otherwise", async () => {
    const { url } = await serve((request, response) => response.end(request.headers["accept-encoding"]));
    expect(text((await exchange().send(asking(url))).body)).toBe("gzip, deflate");
    const own = await exchange().send(asking(url, { headers: { "accept-encoding": "identity" } }));
    expect(text(own.body)).toBe("identity");
  });

  it("unpacks gzip, deflate and brotli", async () => {
    const packed = { gzip: gzipSync("hello"), deflate: deflateSync("hello"), br: brotliCompressSync("hello") };
    const { url } = await serve((request, response) => {
      const name = (request.headers["x-a"] ?? "gzip") as keyof typeof packed;
      response.setHeader("content-encoding", name === "gzip" ? "GZIP" : name);
      response.end(packed[name]);
    });
    for (const name of Object.keys(packed)) {
      const answer = await exchange().send(asking(url, { headers: { "x-a": name } }));
      expect([text(answer.body), answer.status, answer.header("content-encoding")?.toLowerCase()]).toEqual([
        "hello",
        200,
        name,
      ]);
    }
  });

  it("refuses a body that is or unpacks to more than allowed", async () => {
    const { url } = await serve((request, response) => {
      if (request.headers["x-a"] === "plain") return void response.end("x".repeat(2000));
      response.setHeader("content-encoding", "gzip");
      response.end(gzipSync("x".repeat(100_000)));
    });
    const limited = exchange({ maxResponseBytes: 1000 });
    for (const kind of ["plain", "packed"]) {
      const error = await failure(limited.send(asking(url, { headers: { "x-a": kind } })));
      expect(error, kind).toBeInstanceOf(ResponseValidationError);
      expect(error.message).toContain("1000 bytes");
    }
  });

  it("calls damaged packing a failure of the network, and leaves packing alone that it does not know", async () => {
    const { url } = await serve((request, response) => {
      response.setHeader("content-encoding", request.headers["x-a"] ?? "");
      response.end("not packed");
    });
    expect(await failure(exchange().send(asking(url, { headers: { "x-a": "gzip" } })))).toBeInstanceOf(
      APIConnectionError,
    );
    expect(text((await exchange().send(asking(url, { headers: { "x-a": "odd" } }))).body)).toBe("not packed");
  });

  it("gives up on an answer that does not come, and frees the socket", async () => {
    const { url, server } = await serve(() => {});
    const one = exchange({ train: 1 });
    const first = failure(one.send(asking(url, { timeoutMs: 30 })));
    const queued = failure(one.send(asking(url, { timeoutMs: 20 }))); // never gets a socket
    expect(await queued).toBeInstanceOf(APITimeoutError);
    expect(await first).toBeInstanceOf(APITimeoutError);
    server.removeAllListeners("request");
    server.on("request", (_request, response) => response.end("now"));
    expect(text((await one.send(asking(url))).body)).toBe("now");
  });

  it("stops at an abort with the reason untouched, on its way and in line", async () => {
    const { url } = await serve(() => {});
    const one = exchange({ train: 1 });
    const controller = new AbortController();
    const reason = { why: "stop" };
    const sent = one.send(asking(url, { signal: controller.signal }));
    const queued = one.send(asking(url, { signal: controller.signal }));
    await new Promise((resolve) => setTimeout(resolve, 20));
    controller.abort(reason);
    await expect(sent).rejects.toBe(reason);
    await expect(queued).rejects.toBe(reason);
    await expect(one.send(asking(url, { signal: controller.signal }))).rejects.toBe(reason);
  });

  it("leaves nothing on a signal that outlives the request, however it ended", async () => {
    const { url } = await serve((request, response) => {
      if (request.headers["x-a"] === "reset") request.socket.resetAndDestroy();
      else if (request.headers["x-a"] !== "never") response.end("{}");
    });
    const one = exchange();
    const controller = new AbortController();
    const { signal } = controller;
    const listeners = () => getEventListeners(signal, "abort").length;
    await one.send(asking(url, { signal }));
    expect(listeners()).toBe(0);
    await failure(one.send(asking(url, { signal, headers: { "x-a": "reset" } })));
    expect(listeners()).toBe(0);
    await failure(one.send(asking(url, { signal, headers: { "x-a": "never" }, timeoutMs: 20 })));
    expect(listeners()).toBe(0);
    const waiting = one.send(asking(url, { signal, headers: { "x-a": "never" } }));
    expect(listeners()).toBe(1);
    controller.abort("over");
    await expect(waiting).rejects.toBe("over");
    expect(listeners()).toBe(0);
  });

  it("a request aborted in the pool's queue is not sent", async () => {
    const seen: string[] = [];
    const waiting: (() => void)[] = [];
    const { url } = await serve((request, response) => {
      seen.push(request.headers["x-a"] as string);
      waiting.push(() => response.end("{}"));
    });
    const one = exchange({ train: 1 });
    const controller = new AbortController();
    const first = one.send(asking(url, { headers: { "x-a": "first" } }));
    await vi.waitFor(() => expect(waiting).toHaveLength(1));
    const second = failure(one.send(asking(url, { headers: { "x-a": "second" }, signal: controller.signal })));
    const third = one.send(asking(url, { headers: { "x-a": "third" } }));
    controller.abort(new Error("no longer"));
    expect((await second).message).toBe("no longer");
    waiting.shift()?.();
    await first;
    await vi.waitFor(() => expect(waiting).toHaveLength(1));
    waiting.shift()?.();
    await third;
    expect(seen).toEqual(["first", "third"]);
  });

  it("takes the final answer behind an early one, a body just as large as allowed, and an empty packed one", async () => {
    const { url } = await serve((request, response) => {
      if (request.headers["x-a"] === "early") {
        return void response.writeEarlyHints({ link: "</x>; rel=preload" }, () => response.end("after"));
      }
      if (request.headers["x-a"] === "empty") {
        response.writeHead(200, { "content-encoding": "gzip", "content-length": "0" });
        return void response.end();
      }
      response.end(request.url === "/" ? "the root" : "12345");
    });
    const one = exchange({ maxResponseBytes: 8 });
    const early = await one.send(asking(url, { headers: { "x-a": "early" } }));
    expect([early.status, early.header("link"), text(early.body)]).toEqual([200, undefined, "after"]);
    expect((await one.send(asking(url, { headers: { "x-a": "empty" } }))).body).toHaveLength(0);
    expect(text((await exchange({ maxResponseBytes: 5 }).send(asking(url))).body)).toBe("12345");
    expect(text((await one.send(asking(url, { url }))).body)).toBe("the root"); // a URL without a path
  });

  it("names a refused connection, a reset and a body that breaks off", async () => {
    const { url } = await serve((request, response) => {
      if (request.headers["x-a"] === "reset") return void request.socket.resetAndDestroy();
      response.writeHead(200, { "content-length": "100" });
      response.write("half", () => request.socket.destroy());
    });
    const one = exchange();
    const reset = await failure(one.send(asking(url, { headers: { "x-a": "reset" } })));
    expect(reset).toBeInstanceOf(APIConnectionError);
    const half = await failure(one.send(asking(url)));
    expect(half).toBeInstanceOf(APIConnectionError);
    const refused = await failure(one.send(asking("http://127.0.0.1:1")));
    expect(refused.message).toBe("POST http://127.0.0.1:1/api: connection refused");
  });

  it("ends what is under way when closed, and everything later", async () => {
    const { url } = await serve(() => {});
    const one = exchange();
    const failed = failure(one.send(asking(url)));
    await new Promise((resolve) => setTimeout(resolve, 20));
    await one.close();
    expect(await failed).toMatchObject({ code: "closed" });
    expect(await failure(one.send(asking(url)))).toMatchObject({ code: "closed" });
  });

  it("M-808: goes through the proxy that the environment names, unless NO_PROXY excludes the host", async () => {
    const { url } = await serve((_request, response) => response.end("direct"));
    const seen: string[] = [];
    const proxy = await serve((request, response) => {
      seen.push(request.url ?? "");
      httpRequest(request.url ?? "", { method: request.method ?? "GET" }, (inner) => inner.pipe(response)).end();
    });
    proxy.server.on("connect", (request, client) => {
      seen.push(`CONNECT ${request.url}`);
      const [host, port] = (request.url ?? "").split(":");
      const upstream = connect(Number(port), host, () => {
        client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
        upstream.pipe(client);
        client.pipe(upstream);
      });
      client.on("close", () => upstream.destroy());
    });
    vi.stubEnv("http_proxy", "");
    vi.stubEnv("HTTP_PROXY", proxy.url);
    vi.stubEnv("NO_PROXY", "");
    vi.stubEnv("no_proxy", "");
    expect(text((await exchange().send(asking(url))).body)).toBe("direct");
    expect(seen).toHaveLength(1);
    vi.stubEnv("NO_PROXY", "127.0.0.1");
    expect(text((await exchange().send(asking(url))).body)).toBe("direct");
    expect(seen).toHaveLength(1);
    vi.stubEnv("NO_PROXY", undefined);
    vi.stubEnv("no_proxy", undefined);
    vi.stubEnv("HTTP_PROXY", "");
    vi.stubEnv("https_proxy", proxy.url); // for https alone
    expect(text((await exchange().send(asking(url))).body)).toBe("direct");
    expect(seen).toHaveLength(1);
    const { port } = new URL(url);
    await failure(exchange().send(asking(`https://127.0.0.1:${port}`))); // the server does not use TLS
    expect(seen[1]).toBe(`CONNECT 127.0.0.1:${port}`);
  });
});

describe("createExchange", () => {
  const clock = systemClock();
  it("M-808: uses the given fetch, and undici on Node otherwise", async () => {
    const { url } = await serve((request, response) => response.end(request.headers["x-a"]));
    const given = createExchange({ clock, maxSockets: defaultMaxSockets, fetch: async () => new Response("mine") });
    expect(text((await given.send(asking(url))).body)).toBe("mine");
    const own = createExchange({ clock, maxSockets: defaultMaxSockets });
    open.unshift(() => own.close());
    expect(text((await own.send(asking(url))).body)).toBe("b");
    expect(text((await own.send(asking(url))).body)).toBe("b"); // loaded once, used again
    await own.close();
    expect(await failure(own.send(asking(url)))).toMatchObject({ code: "closed" });
  });

  it("M-808: maxResponseBytes holds for both", async () => {
    const { url } = await serve((_request, response) => response.end("123456"));
    for (const fetch of [undefined, async () => new Response("123456")]) {
      const one = createExchange({ clock, maxSockets: defaultMaxSockets, maxResponseBytes: 5, fetch });
      open.unshift(() => one.close());
      expect(await failure(one.send(asking(url)))).toBeInstanceOf(ResponseValidationError);
    }
  });

  it("uses the platform's fetch where there is no Node", async () => {
    const { version } = process;
    vi.stubGlobal("process", { version });
    vi.stubGlobal("fetch", async () => new Response("platform"));
    const one = createExchange({ clock, maxSockets: defaultMaxSockets });
    vi.unstubAllGlobals();
    vi.stubGlobal("fetch", async () => new Response("platform"));
    expect(text((await one.send(asking("http://x"))).body)).toBe("platform");
    vi.unstubAllGlobals();
  });

  it("closing before the first request is nothing", async () => {
    await createExchange({ clock, maxSockets: defaultMaxSockets }).close();
  });
});

it("the name for TLS is the host's alone, without port and user, with dashes for underscores", () => {
  expect(tlsName("my_host.example:8443")).toEqual({ servername: "my-host.example" });
  expect(tlsName("some_user@my_host.example")).toEqual({ servername: "my-host.example" });
  expect(tlsName("some_user@host.example:1")).toEqual({});
  expect(tlsName("host.example:8443")).toEqual({});
});

it("an upload that is slow but moves arrives, whole; one that stands still does not", async () => {
  const clock = new FakeClock();
  const sent = new Uint8Array(16 * 1024 * 1024).map((_, i) => i % 251);
  let received = 0;
  let sum = 0;
  let resume = () => {};
  let moved = () => {};
  const { url } = await serve((request, response) => {
    resume = () => request.resume();
    request.on("data", (piece: Buffer) => {
      received += piece.length;
      for (const byte of piece) sum += byte;
      request.pause();
      moved();
    });
    request.on("end", () => response.end(request.headers["content-length"]));
  });
  const made = new UndiciExchange({ clock, maxSockets: defaultMaxSockets });
  open.unshift(() => made.close());
  const answer = made.send(asking(url, { body: sent, timeoutMs: 8_000 }));
  let over = false;
  const done = answer.then(
    (value) => {
      over = true;
      return value;
    },
    (error: unknown) => {
      over = true;
      throw error;
    },
  );
  // 400 ms for each 512 KiB: in all longer than the deadline, and no longer than it for what the system's buffers hold.
  for (let mark = 0; !over; ) {
    await new Promise<void>((resolve) => {
      moved = resolve;
      done.then(
        () => resolve(),
        () => resolve(),
      );
      resume();
    });
    if (received - mark >= 512 * 1024) {
      mark = received;
      await clock.advance(400);
    }
  }
  expect(text((await done).body)).toBe(String(sent.length));
  expect([received, sum]).toEqual([sent.length, sent.reduce((a, b) => a + b, 0)]);
  expect(clock.monotonic()).toBeGreaterThan(10_000);

  const standing = made.send(asking(url, { body: sent, timeoutMs: 8_000 }));
  const late = failure(standing);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await clock.advance(60_000);
  expect(await late).toBeInstanceOf(APITimeoutError);
});
