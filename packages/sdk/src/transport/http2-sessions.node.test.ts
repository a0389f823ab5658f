import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { type AddressInfo, connect, createServer } from "node:net";
import { gzipSync } from "node:zlib";
import { systemClock } from "@tinklet/wire/clock";
import { APIConnectionError, APITimeoutError, ResponseValidationError } from "@tinklet/wire/errors";
import { FakeClock } from "@tinklet/wire/testing";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { failure } from "../testing/harness.ts";
import { listenTls, type TlsListener } from "../testing/tls.node.ts";
import type { HttpRequest } from "./exchange.ts";
import { defaultMaxSockets } from "./pools.ts";
import { UndiciExchange } from "./undici-exchange.node.ts";

const open: (() => Promise<void>)[] = [];
beforeEach(() => void vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0"));
afterEach(async () => {
  for (const close of open.splice(0)) await close();
  vi.unstubAllEnvs();
});

interface Held {
  readonly request: Http2ServerRequest;
  readonly response: Http2ServerResponse;
  readonly path: string;
  readonly body: string;
}

/** A server that holds every request until the test answers it. */
async function serve(options: Parameters<typeof listenTls>[1] = {}) {
  const held: Held[] = [];
  const listener = await listenTls((request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("error", () => {});
    response.on("error", () => {});
    request.on("end", () =>
      held.push({ request, response, path: request.url, body: Buffer.concat(pieces).toString() }),
    );
  }, options);
  open.push(() => listener.close());
  const answerAll = () => {
    for (const { response, path } of held.splice(0)) response.end(`answer to ${path}`);
  };
  const arrived = (count: number) => vi.waitFor(() => expect(held).toHaveLength(count), { interval: 5 });
  return { ...listener, held, answerAll, arrived };
}

/** Frames keep their order: when a ping is acknowledged, the client has read what was sent before it. */
const received = (sessions: TlsListener["sessions"]) =>
  new Promise<unknown>((resolve) => [...sessions][0]?.ping(resolve));

/** A relay to a port that can swallow what is sent, as a network does that has forgotten a connection. */
async function forward(port: number) {
  const relay = { url: "", isSilent: false };
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.on("data", (piece) => void (relay.isSilent || to.write(piece)));
      from.on("error", () => {});
      from.on("close", () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(() => new Promise((resolve) => server.close(() => resolve())));
  relay.url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return relay;
}

function exchange(
  options: { retrieve?: number; maxResponseBytes?: number; clock?: FakeClock; http2?: boolean } = {},
): UndiciExchange {
  const { retrieve = 2_000, clock = systemClock({ ref: true }), ...rest } = options;
  const made = new UndiciExchange({ clock, maxSockets: { ...defaultMaxSockets, retrieve }, http2: true, ...rest });
  open.unshift(() => made.close());
  return made;
}

const asking = (url: string, path: string | number = 1, more: Partial<HttpRequest> = {}): HttpRequest => ({
  method: "POST",
  url: `${url}/${path}`,
  headers: { "X-A": "b", "content-type": "application/json", connection: "keep-alive" },
  body: "{}",
  pool: "retrieve",
  timeoutMs: 60_000,
  signal: undefined,
  ...more,
});
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const asks = (by: UndiciExchange, url: string, count: number) =>
  Array.from({ length: count }, (_, i) => {
    const call = by.send(asking(url, i)).then(({ body }) => text(body));
    call.catch(() => {}); // awaited later
    return call;
  });
const outcomes = async (calls: readonly Promise<unknown>[]) =>
  (await Promise.allSettled(calls)).map((result) => (result.status === "fulfilled" ? result.value : result.reason));

it("sends method, path, headers and body, and reads the answer", async () => {
  const { url, held, arrived } = await serve();
  const call = exchange().send(asking(url, "api?x=1", { body: "ä" }));
  await arrived(1);
  const [{ request, response, body }] = held as [Held];
  expect([request.method, request.url, request.headers["x-a"], body]).toEqual(["POST", "/api?x=1", "b", "ä"]);
  expect(request.httpVersion).toBe("2.0");
  expect(request.authority).toBe(new URL(url).host);
  expect(request.headers).toMatchObject({ "content-length": "2", "accept-encoding": "gzip, deflate" });
  expect(request.headers["connection"]).toBeUndefined();
  response.stream.additionalHeaders({ ":status": 103 });
  response.setHeader("x-many", ["1", "2"]);
  response.setHeader("content-encoding", "gzip");
  response.writeHead(201);
  response.end(gzipSync("hello"));
  const answer = await call;
  expect([answer.status, answer.header("x-many"), answer.header(":status"), text(answer.body)]).toEqual([
    201,
    "1, 2",
    undefined,
    "hello",
  ]);
});

it("sends bodies of any kind and size", async () => {
  const { url, held, answerAll, arrived } = await serve();
  const one = exchange();
  const bodies = [undefined, "", Uint8Array.of(65, 66), "y".repeat(300_000)];
  for (const body of bodies) {
    const call = one.send(asking(url, 1, { body }));
    await arrived(1);
    expect(held[0]?.body).toBe(body === undefined ? "" : typeof body === "string" ? body : "AB");
    expect(held[0]?.request.headers["content-length"]).toBe(String(body?.length ?? 0));
    answerAll();
    await call;
  }
});

it("450 polls share 3 sessions, other pools have sockets of their own", async () => {
  const { url, answerAll, arrived, opened } = await serve({ settings: { maxConcurrentStreams: 250 } });
  const one = exchange();
  const calls = asks(one, url, 450);
  await arrived(450);
  expect(opened).toEqual({ sessions: 3, sockets: 3 });
  const other = one.send(asking(url, "train", { pool: "train" }));
  await arrived(451);
  expect(opened).toEqual({ sessions: 3, sockets: 4 });
  answerAll();
  expect(await Promise.all(calls)).toEqual(Array.from({ length: 450 }, (_, i) => `answer to /${i}`));
  await other;
});

it("M-801: maxSockets.retrieve limits the requests in flight; the others wait for their turn", async () => {
  const { url, answerAll, arrived, opened } = await serve({ settings: { maxConcurrentStreams: 10 } });
  const calls = asks(exchange({ retrieve: 20 }), url, 50);
  // Twice the server's limit of streams, over two sessions; undici's own HTTP/2 fails those above the limit.
  await arrived(20);
  expect(opened.sessions).toBe(2);
  for (const left of [20, 10]) {
    answerAll();
    await arrived(left);
  }
  answerAll();
  expect(await Promise.all(calls)).toHaveLength(50);
  expect(opened.sessions).toBe(2);
});

it("waits while the server allows no stream, with no further sessions than HTTP/1.1 would have sockets", async () => {
  const { url, sessions, answerAll, arrived, opened, held } = await serve({ settings: { maxConcurrentStreams: 0 } });
  const calls = asks(exchange({ retrieve: 2 }), url, 3);
  await vi.waitFor(() => expect(sessions.size).toBe(2), { interval: 5 });
  await received(sessions);
  expect(held).toHaveLength(0);
  for (const session of sessions) session.settings({ maxConcurrentStreams: 5 });
  await arrived(2);
  answerAll();
  await arrived(1);
  answerAll();
  expect(await Promise.all(calls)).toHaveLength(3);
  expect(opened.sessions).toBe(2);
});

it("a server without HTTP/2 gets one request per HTTP/1.1 socket", async () => {
  const { url, held, answerAll, arrived, opened } = await serve({ http1Only: true });
  const one = exchange();
  const calls = asks(one, url, 30);
  await arrived(30);
  expect(held.map(({ request }) => request.httpVersion)).toEqual(Array(30).fill("1.1"));
  expect(opened.sessions).toBe(0);
  expect(opened.sockets).toBeLessThanOrEqual(31); // one finds out, and is closed
  answerAll();
  await Promise.all(calls);
  const later = one.send(asking(url, "later"));
  await arrived(1);
  expect(held[0]?.request.httpVersion).toBe("1.1");
  answerAll();
  await later;
});

it("http2 off, the default: no session", async () => {
  const { url, answerAll, arrived, opened } = await serve();
  const calls = asks(exchange({ http2: false }), url, 3);
  await arrived(3);
  expect(opened).toEqual({ sessions: 0, sockets: 3 });
  answerAll();
  await Promise.all(calls);
});

it("the server announces its end: requests in progress are completed, later ones get a new session", async () => {
  const { url, sessions, answerAll, arrived, opened } = await serve();
  const one = exchange();
  const before = asks(one, url, 5);
  await arrived(5);
  [...sessions][0]?.goaway(0);
  await received(sessions);
  const after = one.send(asking(url, "after"));
  await arrived(6);
  expect(opened.sessions).toBe(2);
  answerAll();
  expect(await Promise.all(before)).toHaveLength(5);
  expect(text((await after).body)).toBe("answer to /after");
});

it("requests that the ending server has not taken fail one by one, with a retryable error", async () => {
  const { url, sessions, held, answerAll, arrived } = await serve();
  const calls = asks(exchange(), url, 6);
  await arrived(6);
  [...sessions][0]?.goaway(0, held[2]?.request.stream.id);
  await received(sessions);
  answerAll();
  const results = await outcomes(calls);
  expect(results.slice(0, 3)).toEqual(["answer to /0", "answer to /1", "answer to /2"]);
  for (const error of results.slice(3)) {
    expect(error).toBeInstanceOf(APIConnectionError);
    expect(error.message).toMatch(/^POST https:\/\/127\.0\.0\.1:\d+\/\d: the server refused the request/);
  }
});

it.each([
  ["an error of the server", ({ sessions }: TlsListener) => [...sessions][0]?.goaway(2)],
  ["a reset", ({ sockets }: TlsListener) => [...sockets][0]?.resetAndDestroy()],
  ["the end of the connection", ({ sockets }: TlsListener) => [...sockets][0]?.destroy()],
])("a session's end by %s fails each of its requests once; the next ones get a new session", async (_, end) => {
  const server = await serve();
  const { url, held, answerAll, arrived, opened } = server;
  const one = exchange();
  const calls = asks(one, url, 20);
  await arrived(20);
  end(server);
  const results = await outcomes(calls);
  expect(results.every((error) => error instanceof APIConnectionError)).toBe(true);
  held.splice(0);
  const again = asks(one, url, 20);
  await arrived(20);
  answerAll();
  expect(await Promise.all(again)).toHaveLength(20);
  expect(opened.sessions).toBe(2);
});

it("a stream that the server resets fails alone, before or within its answer", async () => {
  const { url, sessions, held, answerAll, arrived, opened } = await serve();
  const one = exchange();
  for (const code of [8, 2]) {
    const calls = asks(one, url, 4);
    await arrived(4);
    held.sort((a, b) => (a.path < b.path ? -1 : 1));
    held[1]?.request.stream.close(code === 8 ? 0 : code); // 0 is no error, but there was no answer either
    held[2]?.response.writeHead(200);
    await new Promise<unknown>((resolve) => held[2]?.response.write("half", resolve));
    held[2]?.request.stream.close(code);
    await received(sessions);
    const rest = held.splice(0);
    for (const at of [0, 3]) rest[at]?.response.end("fine");
    const results = await outcomes(calls);
    expect([results[0], results[3]]).toEqual(["fine", "fine"]);
    for (const at of [1, 2]) expect(results[at], `code ${code}, ${at}`).toBeInstanceOf(APIConnectionError);
  }
  answerAll();
  expect(opened.sessions).toBe(1);
});

it("an abort ends its stream alone, with the reason untouched", async () => {
  const { url, held, answerAll, arrived, opened } = await serve();
  const one = exchange();
  const controller = new AbortController();
  const reason = { why: "stop" };
  const aborted = one.send(asking(url, "aborted", { signal: controller.signal }));
  const others = asks(one, url, 3);
  await arrived(4);
  const closed = new Promise((resolve) => {
    held.find(({ path }) => path === "/aborted")?.request.stream.on("close", () => resolve("closed"));
  });
  controller.abort(reason);
  await expect(aborted).rejects.toBe(reason);
  expect(await closed).toBe("closed");
  answerAll();
  expect(await Promise.all(others)).toHaveLength(3);
  expect(opened.sessions).toBe(1);
});

it("a request aborted while it waits is not sent", async () => {
  const { url, held, answerAll, arrived } = await serve();
  const one = exchange({ retrieve: 1 });
  const controller = new AbortController();
  const first = one.send(asking(url, "first"));
  const second = failure(one.send(asking(url, "second", { signal: controller.signal })));
  const third = one.send(asking(url, "third"));
  // One request in flight although a session takes 200.
  await arrived(1);
  controller.abort(new Error("no longer"));
  expect((await second).message).toBe("no longer");
  answerAll();
  await first;
  await arrived(1);
  expect(held[0]?.path).toBe("/third");
  answerAll();
  await third;
});

it("deadline and size limit hold per stream", async () => {
  const { url, held, answerAll, arrived, opened } = await serve();
  const clock = new FakeClock();
  const one = exchange({ clock, maxResponseBytes: 1_000 });
  const late = failure(one.send(asking(url, "late", { timeoutMs: 1_000 })));
  const large = failure(one.send(asking(url, "large")));
  const fine = one.send(asking(url, "fine"));
  await arrived(3);
  held.find(({ path }) => path === "/large")?.response.end("x".repeat(2_000));
  const tooLarge = await large;
  expect(tooLarge).toBeInstanceOf(ResponseValidationError);
  expect(tooLarge.message).toContain("1000 bytes");
  await clock.advance(1_000);
  expect(await late).toBeInstanceOf(APITimeoutError);
  answerAll();
  expect(text((await fine).body)).toBe("answer to /fine");
  expect(opened.sessions).toBe(1);
});

it("a connection on which nothing arrives is replaced after a timeout and a ping", async () => {
  const { port, answerAll, arrived, opened } = await serve();
  const relay = await forward(port);
  const { url } = relay;
  const clock = new FakeClock();
  const one = exchange({ clock });
  const first = one.send(asking(url, "first"));
  await arrived(1);
  answerAll();
  await first;
  relay.isSilent = true;
  const late = failure(one.send(asking(url, "late", { timeoutMs: 1_000 })));
  const other = failure(one.send(asking(url, "other", { timeoutMs: 60_000 })));
  await clock.advance(1_000);
  expect(await late).toBeInstanceOf(APITimeoutError);
  await clock.advance(5_000);
  expect((await other).message).toMatch(/the server does not answer on this connection$/);
  relay.isSilent = false;
  const next = one.send(asking(url, "next"));
  await arrived(1);
  expect(opened.sessions).toBe(2);
  answerAll();
  await next;
});

it("an idle session is closed", async () => {
  const { url, sessions, answerAll, arrived } = await serve();
  const clock = new FakeClock();
  const one = exchange({ clock });
  const call = one.send(asking(url));
  await arrived(1);
  answerAll();
  await call;
  await clock.advance(29_000);
  expect(sessions.size).toBe(1);
  await clock.advance(1_000);
  await vi.waitFor(() => expect(sessions.size).toBe(0));
});

it("names what is wrong with a connection", async () => {
  const { url } = await serve();
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", undefined);
  const untrusted = await failure(exchange().send(asking(url)));
  expect(untrusted).toBeInstanceOf(APIConnectionError);
  expect(untrusted.message).toMatch(/self-signed certificate/);
  const refused = await failure(exchange().send(asking("https://127.0.0.1:1")));
  expect(refused.message).toBe("POST https://127.0.0.1:1/1: connection refused");
});

it("a connection that cannot be opened in time fails what waits for it", async () => {
  const clock = new FakeClock();
  const silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  open.push(async () => void silent.close());
  const { port } = silent.address() as AddressInfo;
  const calls = [1, 2].map((path) => failure(exchange({ clock }).send(asking(`https://127.0.0.1:${port}`, path))));
  await clock.advance(5_000);
  for (const error of await Promise.all(calls)) expect(error.message).toMatch(/could not be opened in time$/);
});

it("ends what is under way and what waits when closed", async () => {
  const { url, arrived, sessions } = await serve({ settings: { maxConcurrentStreams: 1 } });
  const one = exchange({ retrieve: 1 });
  const calls = [failure(one.send(asking(url, "sent"))), failure(one.send(asking(url, "waiting")))];
  await arrived(1);
  await one.close();
  for (const error of await Promise.all(calls)) expect(error).toMatchObject({ code: "closed" });
  expect(await failure(one.send(asking(url)))).toMatchObject({ code: "closed" });
  await vi.waitFor(() => expect(sessions.size).toBe(0));
});
