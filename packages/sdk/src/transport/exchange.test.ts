import { getEventListeners } from "node:events";
import { APIConnectionError, APITimeoutError, ResponseValidationError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { FakeClock } from "@tinklet/wire/testing";
import { describe, expect, it } from "vitest";
import { failure } from "../testing/harness.ts";
import {
  causeCode,
  connectionError,
  Deadline,
  FetchExchange,
  type FetchLike,
  type HttpRequest,
  joinBytes,
  withoutQuery,
} from "./exchange.ts";

const request: HttpRequest = {
  method: "POST",
  url: "http://host/api/v1/x?token=1",
  headers: { a: "b" },
  body: "{}",
  pool: "train",
  timeoutMs: 1000,
  signal: undefined,
};

function setup(fetch: FetchLike, maxResponseBytes?: number) {
  const clock = new FakeClock();
  const exchange = new FetchExchange({ fetch, clock, ...omitUndefined({ maxResponseBytes }) });
  return { clock, exchange };
}

/** Fails when aborted, as the platform's fetch does, and never answers otherwise. */
const silent: FetchLike = (_url, init) =>
  new Promise((_, reject) => init.signal?.addEventListener("abort", () => reject(init.signal?.reason)));

describe("FetchExchange", () => {
  it("M-808: sends through the given fetch and reads the whole answer", async () => {
    const seen: [string, RequestInit][] = [];
    const { exchange, clock } = setup(async (url, init) => {
      seen.push([url, init]);
      return new Response("hello", { status: 201, headers: { "X-Y": "z" } });
    });
    const answer = await exchange.send(request);
    expect([answer.status, answer.header("x-y"), answer.header("nope"), new TextDecoder().decode(answer.body)]).toEqual(
      [201, "z", undefined, "hello"],
    );
    expect(seen[0]?.[0]).toBe(request.url);
    expect(seen[0]?.[1]).toMatchObject({ method: "POST", headers: { a: "b" }, body: "{}", redirect: "manual" });
    expect(clock.pending).toBe(0); // no timer is left behind
  });

  it("sends no body when there is none, and reads an empty answer", async () => {
    let init: RequestInit = {};
    const { exchange } = setup(async (_url, given) => {
      init = given;
      return new Response(null, { status: 204 });
    });
    const answer = await exchange.send({ ...request, method: "GET", body: undefined });
    expect("body" in init).toBe(false);
    expect(answer.body.byteLength).toBe(0);
  });

  it("gives up on an answer that does not begin in time", async () => {
    const { clock, exchange } = setup(silent);
    const failed = failure(exchange.send(request));
    await clock.advance(999);
    expect(clock.pending).toBe(1);
    await clock.advance(1);
    const error = await failed;
    expect(error).toBeInstanceOf(APITimeoutError);
    expect(error.message).toBe("POST http://host/api/v1/x: no answer within 1 s");
    expect(clock.pending).toBe(0);
  });

  it("gives up even when the given fetch ignores the signal", async () => {
    const { clock, exchange } = setup(() => new Promise(() => {}));
    const failed = failure(exchange.send(request));
    await clock.advance(1000);
    expect(await failed).toBeInstanceOf(APITimeoutError);
  });

  it("M-504: is not held up by one byte now and then, but lets a large body take its time", async () => {
    const drip = (clock: FakeClock, size: number, count: number): FetchLike => {
      return async () => {
        let sent = 0;
        const stream = new ReadableStream<Uint8Array>({
          pull: async (controller) => {
            await clock.sleep(600);
            if (sent++ === count) return controller.close();
            controller.enqueue(new Uint8Array(size));
          },
        });
        return new Response(stream);
      };
    };
    const clock = new FakeClock();
    const slow = new FetchExchange({ fetch: drip(clock, 1, 10), clock });
    const failed = failure(slow.send(request));
    await clock.advance(1000);
    expect(await failed).toBeInstanceOf(APITimeoutError);
    const large = new FetchExchange({ fetch: drip(clock, 65_536, 10), clock }).send(request);
    await clock.advance(6600);
    expect((await large).body.byteLength).toBe(655_360);
  });

  it("refuses an answer that is larger than allowed", async () => {
    const { exchange } = setup(async () => new Response("123456"), 5);
    const error = await failure(exchange.send(request));
    expect(error).toBeInstanceOf(ResponseValidationError);
    expect(error.message).toContain("larger than the 5 bytes allowed");
    const fits = setup(async () => new Response("12345"), 5);
    expect((await fits.exchange.send(request)).body.byteLength).toBe(5);
  });

  it("asks once, and leaves nothing on a signal that outlives the request", async () => {
    let asked = 0;
    const { exchange } = setup(async () => {
      if (++asked === 2) throw new TypeError("fetch failed");
      return new Response("{}");
    });
    const { signal } = new AbortController();
    await exchange.send({ ...request, signal });
    expect([asked, getEventListeners(signal, "abort").length]).toEqual([1, 0]);
    await failure(exchange.send({ ...request, signal }));
    expect([asked, getEventListeners(signal, "abort").length]).toEqual([2, 0]);
  });

  it("rethrows the reason of an abort untouched, before and while sending", async () => {
    const { exchange, clock } = setup(silent);
    const controller = new AbortController();
    const reason = { why: "stop" };
    const sending = exchange.send({ ...request, signal: controller.signal });
    controller.abort(reason);
    await expect(sending).rejects.toBe(reason);
    await expect(exchange.send({ ...request, signal: controller.signal })).rejects.toBe(reason);
    expect(clock.pending).toBe(0);
  });

  it("calls a failure of the network by its name and keeps the cause", async () => {
    const cause = new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code: "ECONNREFUSED" }) });
    const { exchange } = setup(() => Promise.reject(cause));
    const error = await failure(exchange.send(request));
    expect(error).toBeInstanceOf(APIConnectionError);
    expect(error.message).toBe("POST http://host/api/v1/x: connection refused");
    expect(error.cause).toBe(cause);
  });

  it("reports a body that breaks off as a failure of the network", async () => {
    const stream = new ReadableStream({ pull: (controller) => controller.error(new Error("terminated")) });
    const { exchange } = setup(async () => new Response(stream));
    const error = await failure(exchange.send(request));
    expect(error).toBeInstanceOf(APIConnectionError);
    expect(error.message).toContain("terminated");
  });

  it("lets the platform follow a redirect that it hides", async () => {
    const modes: unknown[] = [];
    const { exchange } = setup(async (_url, init) => {
      modes.push(init.redirect);
      if (init.redirect === "manual") return { type: "opaqueredirect", status: 0 } as Response;
      return new Response("there");
    });
    expect((await exchange.send(request)).status).toBe(200);
    expect(modes).toEqual(["manual", "follow"]);
  });

  it("ends what is under way when it is closed", async () => {
    const { exchange } = setup(silent);
    const failed = failure(exchange.send(request));
    await exchange.close();
    expect(await failed).toMatchObject({ code: "closed" });
  });
});

it("a deadline moves with every 64 KiB and not before", async () => {
  const clock = new FakeClock();
  let expired = 0;
  const deadline = new Deadline(clock, 100, () => expired++);
  await clock.advance(90);
  deadline.moved(65_535);
  await clock.advance(9);
  expect(expired).toBe(0);
  deadline.moved(1);
  await clock.advance(99);
  expect(expired).toBe(0);
  deadline.restart();
  deadline.moved(65_535); // counted from zero again
  await clock.advance(100);
  expect(expired).toBe(1);
  deadline.stop();
  deadline.restart();
  deadline.moved(65_536);
  expect(clock.pending).toBe(0);
});

it("M-805: URLs in messages hold neither query nor user name", () => {
  expect(withoutQuery("https://user:pass@host/p?key=1#x")).toBe("https://host/p");
  expect(withoutQuery("https://host/p#x")).toBe("https://host/p");
  expect(withoutQuery("https://host/p")).toBe("https://host/p");
});

it("finds the system's code wherever it stands", () => {
  const refused = Object.assign(new Error(), { code: "ECONNREFUSED" });
  expect(causeCode(refused)).toBe("ECONNREFUSED");
  expect(causeCode(new Error("a", { cause: new Error("b", { cause: refused }) }))).toBe("ECONNREFUSED");
  expect(causeCode(Object.assign(new Error(), { errors: [refused, new Error()] }))).toBe("ECONNREFUSED");
  expect(causeCode(Object.assign(new Error(), { errors: [] }))).toBeUndefined();
  const loop: { cause?: unknown } = {};
  loop.cause = loop;
  expect([causeCode(loop), causeCode("text"), causeCode(undefined)]).toEqual([undefined, undefined, undefined]);
});

it("names what it cannot name otherwise by its own message", () => {
  expect(connectionError(request, new Error("odd")).message).toBe("POST http://host/api/v1/x: odd");
  expect(connectionError(request, new Error("")).message).toBe("POST http://host/api/v1/x: failed");
  expect(connectionError(request, "text").message).toBe("POST http://host/api/v1/x: failed");
});

it("joins pieces, and does not copy a single one", () => {
  const one = Uint8Array.of(1, 2);
  expect(joinBytes([one], 2)).toBe(one);
  expect([...joinBytes([one, Uint8Array.of(), Uint8Array.of(3)], 3)]).toEqual([1, 2, 3]);
  expect(joinBytes([], 0).byteLength).toBe(0);
});

it("a large upload through a fetch is given time by its size", async () => {
  const clock = new FakeClock();
  const exchange = new FetchExchange({ clock, fetch: () => new Promise(() => {}) });
  const headers = {};
  const body = new Uint8Array(1_250_000); // ten seconds at one megabit a second
  const sent = { method: "POST", url: "http://h/x", headers, body, pool: "train", timeoutMs: 1_000 } as const;
  const late = failure(exchange.send({ ...sent, signal: undefined }));
  let over = false;
  void late.then(() => {
    over = true;
  });
  await clock.advance(10_999);
  expect(over).toBe(false);
  await clock.advance(1);
  expect(await late).toBeInstanceOf(APITimeoutError);
});
