/** The one poll for all samples, against a server whose every answer the test gives: order, pace, failures and bounds. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { FakeClock } from "@tinklet/wire/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { MemoryLogger } from "../../testing/harness.ts";
import { tellAbandoned } from "../sampling/abandoned-samples.ts";
import { FuturesPoller } from "./futures-poller.ts";
import { Session } from "./session.ts";
import "../../../../wire/src/routes/rest-routes.ts"; // loaded before the fake clock runs

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** A request that the server has not answered. */
interface Asked {
  readonly path: string;
  readonly atMs: number;
  readonly body: Record<string, unknown>;
  readonly left: () => boolean;
  readonly answer: (body: unknown, status?: number) => Promise<void>;
  readonly cut: () => Promise<void>;
}

const completion = (id: string, fields: object = {}) => ({ state: "finished", request_id: id, ...fields });

function play() {
  const clock = new FakeClock();
  const logger = new MemoryLogger();
  const asked: Asked[] = [];
  const fetch = (url: string | URL | Request, init: RequestInit = {}) =>
    new Promise<Response>((resolve, reject) => {
      init.signal?.addEventListener("abort", () => reject(init.signal?.reason));
      const settle = (end: () => void) => {
        end();
        return clock.advance(0);
      };
      const headers = { "content-type": "application/json" };
      asked.push({
        path: new URL(String(url)).pathname.split("/").at(-1) as string,
        atMs: clock.monotonic(),
        body: JSON.parse(String(init.body)) as Record<string, unknown>,
        left: () => init.signal?.aborted === true,
        answer: (body, status = 200) => settle(() => resolve(new Response(JSON.stringify(body), { status, headers }))),
        cut: () => settle(() => reject(new TypeError("fetch failed"))),
      });
    });
  const baseUrl = "http://stub.example";
  const session = new Session({ apiKey: "tml-x", baseUrl, fetch, clock, logger, logLevel: "debug", telemetry: false });
  onTestFinished(() => session.close());
  const poller = new FuturesPoller(session, "sampler-1", 3);
  const over: string[] = [];
  /** Waits for a sample; what becomes of it is noted in `over`. */
  const wait = (id: string, signal = new AbortController().signal, dropped = poller.dropped) => {
    void poller.waitFor(id, { signal, dropped }).then(
      (completed) => over.push(completed === undefined ? `${id}: alone` : `${id}: ${completed.payloadBytes}`),
      (reason: unknown) => over.push(`${id}: ${String(reason)}`),
    );
    return clock.advance(0);
  };
  /** The last request. */
  const last = () => asked.at(-1) as Asked;
  return { clock, logger, session, poller, asked, last, wait, over };
}
const answer = (cursor: number, ...ids: string[]) => ({ completions: ids.map((id) => completion(id)), cursor });

describe("the poll", () => {
  it("names its client, continues from the last cursor and ends with the last sample", async () => {
    const { wait, asked, last, over, clock } = play();
    await wait("a");
    await wait("b");
    expect(asked).toHaveLength(1); // one for both
    expect(last().body).toEqual({
      target: { type: "sampling_session", sampling_session_id: "sampler-1", cloned_sampler_id: 3 },
      prev_cursor: 0,
      retrieved_request_ids: [],
    });
    await last().answer({ completions: [completion("a", { response_payload_uncompressed_size: 77 })], cursor: 5 });
    expect(over).toEqual(["a: 77"]);
    await clock.advance(4);
    expect(last().body["prev_cursor"]).toBe(5);
    await last().answer({ completions: [{ state: "failed", request_id: "b" }], cursor: 6 });
    expect(over).toEqual(["a: 77", "b: undefined"]);
    await clock.advance(600_000);
    expect(asked).toHaveLength(2);
  });

  it("a sample that completed before it was awaited is reported once", async () => {
    const { wait, asked, last, over, clock } = play();
    await wait("a");
    await last().answer(answer(1, "early", "a"));
    await wait("early");
    expect(over).toEqual(["a: undefined", "early: undefined"]);
    expect(asked).toHaveLength(1);
    await wait("early"); // reported completions are not kept
    expect(over).toHaveLength(2);
    await clock.advance(0);
    expect(asked).toHaveLength(2);
  });

  it("keeps the newest 4,096 that no sample waits for", async () => {
    const { wait, last, over } = play();
    await wait("a");
    const early = Array.from({ length: 4_098 }, (_, i) => `early-${i}`);
    await last().answer(answer(1, ...early, "a"));
    for (const id of ["early-0", "early-1", "early-2", "early-4097"]) await wait(id);
    expect(over.slice(1)).toEqual(["early-2: undefined", "early-4097: undefined"]);
  });

  it("a session that is closed leaves no timer of the report of fetched results", async () => {
    const { wait, last, session, poller, clock } = play();
    await wait("a");
    await last().answer(answer(1, "a"));
    await clock.advance(1_000); // the poll's own pause
    const before = clock.pending;
    poller.fetched("a");
    expect(clock.pending).toBe(before + 1);
    await session.close();
    expect(clock.pending).toBe(before);
    poller.fetched("b");
    expect(clock.pending).toBe(before);
  });

  it("a sample whose completion may be among those dropped is asked for alone", async () => {
    const { wait, last, over, poller, clock, asked } = play();
    const before = poller.dropped;
    await wait("a");
    await last().answer(answer(1, "a", ...Array.from({ length: 4_097 }, (_, i) => `early-${i}`)));
    expect(poller.dropped).toBe(1);
    const none = new AbortController().signal;
    await wait("early-0", none, before);
    await wait("early-1", none, before);
    expect(over.slice(1)).toEqual(["early-0: alone", "early-1: undefined"]);
    await wait("later"); // submitted after the drop: its completion is still to come
    await clock.advance(8);
    await last().answer(answer(2, "later"));
    expect([over.at(-1), asked.length]).toEqual(["later: undefined", 2]);
  });

  it("the more samples wait, the longer apart polls begin, up to a second; a slow poll is followed at once", async () => {
    const { wait, asked, last, clock } = play();
    const ids = Array.from({ length: 500 }, (_, i) => `s${i}`);
    await Promise.all(ids.map((id) => wait(id)));
    await last().answer(answer(1, "s0"));
    await clock.advance(999);
    expect(asked).toHaveLength(1); // 499 times 4 ms are more than the second
    await clock.advance(1);
    expect(asked.map(({ atMs }) => atMs)).toEqual([0, 1_000]);
    await last().answer(answer(2, ...ids.slice(1, 480)));
    await clock.advance(79);
    expect(asked).toHaveLength(2); // 20 wait
    await clock.advance(1);
    expect(asked.map(({ atMs }) => atMs)).toEqual([0, 1_000, 1_080]);
    await clock.advance(76);
    await last().answer(answer(3, "s480")); // 19 wait, and all of their 76 ms have passed
    expect(asked.map(({ atMs }) => atMs)).toEqual([0, 1_000, 1_080, 1_156]);
  });
});

describe("a sample that is given up", () => {
  it("before it waits asks nothing, and says why", async () => {
    const { wait, asked, over } = play();
    await wait("a", AbortSignal.abort("changed my mind"));
    expect([asked, over]).toEqual([[], ["a: changed my mind"]]);
  });

  it("leaves the poll to the others; the last one ends it", async () => {
    const { wait, asked, last, over, clock } = play();
    const [one, two] = [new AbortController(), new AbortController()];
    await wait("a", one.signal);
    await wait("b", two.signal);
    one.abort("enough");
    await clock.advance(0);
    expect([last().left(), over]).toEqual([false, ["a: enough"]]);
    two.abort("too");
    await clock.advance(600_000);
    expect([last().left(), over]).toEqual([true, ["a: enough", "b: too"]]);
    expect(asked).toHaveLength(1);
  });

  it("a sample that comes while the poll is being left is polled for", async () => {
    const { wait, asked, last, over } = play();
    const controller = new AbortController();
    await wait("a", controller.signal);
    controller.abort("enough");
    await wait("b");
    expect(asked).toHaveLength(2);
    await last().answer(answer(1, "a", "b"));
    expect(over).toEqual(["a: enough", "b: undefined"]);
  });

  it("leaves nothing behind when its completion never comes", async () => {
    const { poller, clock, asked } = play();
    const heldBytes = () => {
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    const [ids, idBytes] = [400, 100_000];
    const before = heldBytes();
    for (let i = 0; i < ids; i++) {
      const controller = new AbortController();
      const id = Buffer.alloc(idBytes, `${i}-`).toString("latin1");
      poller.waitFor(id, { signal: controller.signal, dropped: 0 }).catch(() => {});
      controller.abort("enough");
    }
    await clock.advance(600_000);
    asked.length = 0;
    expect(heldBytes() - before).toBeLessThan((ids * idBytes) / 4);
  });

  it("between two polls is just taken off the list", async () => {
    const { wait, asked, last, over, clock } = play();
    const controller = new AbortController();
    await wait("a", controller.signal);
    await last().answer({ detail: "busy" }, 503);
    controller.abort("enough");
    await clock.advance(600_000);
    expect([asked.length, over]).toEqual([1, ["a: enough"]]);
  });
});

describe("what was fetched", () => {
  it("is acknowledged with the next poll in order, again if that failed, and not twice", async () => {
    const { wait, last, poller, clock } = play();
    await wait("a");
    for (const id of ["y", "x", "z"]) poller.fetched(id);
    await last().answer(answer(1));
    await clock.advance(4);
    expect(last().body["retrieved_request_ids"]).toEqual(["x", "y", "z"]);
    await last().answer({ detail: "busy" }, 503);
    await clock.advance(1_000);
    expect(last().body["retrieved_request_ids"]).toEqual(["x", "y", "z"]);
    poller.fetched("w");
    await last().answer(answer(2));
    await clock.advance(4);
    expect(last().body["retrieved_request_ids"]).toEqual(["w"]);
  });

  it("is acknowledged in a separate request a second after the last poll", async () => {
    const { wait, asked, last, poller, clock } = play();
    await wait("a");
    await last().answer(answer(1, "a"));
    poller.fetched("a");
    await clock.advance(900);
    poller.fetched("b");
    await clock.advance(999);
    expect(asked).toHaveLength(1);
    await clock.advance(1);
    expect(last().body).toMatchObject({ timeout: 0, retrieved_request_ids: ["a", "b"], prev_cursor: 1 });
    await last().cut(); // affects no caller
    await clock.advance(600_000);
    expect(asked).toHaveLength(2);
  });

  it("is not told again on its own once a poll has told it", async () => {
    const { wait, asked, last, poller, clock } = play();
    await wait("a");
    poller.fetched("x");
    await last().answer(answer(1));
    await clock.advance(4);
    expect(last().body["retrieved_request_ids"]).toEqual(["x"]);
    await last().answer(answer(2, "a"));
    await clock.advance(30_000);
    expect(asked).toHaveLength(2);
  });

  it("waits for the poll that is under way", async () => {
    const { wait, asked, last, poller, clock } = play();
    await wait("a");
    poller.fetched("x");
    await clock.advance(10_000);
    expect(asked).toHaveLength(1);
    await last().answer(answer(1));
    await clock.advance(4);
    expect(last().body["retrieved_request_ids"]).toEqual(["x"]);
    await last().answer(answer(2, "a"));
    await clock.advance(30_000);
    expect(asked).toHaveLength(2); // everything is acknowledged
  });
});

describe("a poll that fails", () => {
  it("for a while is tried again after a second", async () => {
    const { wait, asked, last, over, clock, logger } = play();
    await wait("a");
    await last().cut();
    await clock.advance(999);
    expect(asked).toHaveLength(1);
    await clock.advance(1);
    await last().answer({ detail: "busy" }, 503);
    await clock.advance(1_000);
    await last().answer({ detail: "slow down" }, 429);
    await clock.advance(1_000);
    await last().answer(answer(1, "a"));
    expect([asked.length, over]).toEqual([4, ["a: undefined"]]);
    expect(logger.with("one by one")).toEqual([]);
  });

  it("is a proxy's three times in a row, and then the server's", async () => {
    const { wait, asked, last, over, clock, logger } = play();
    const refuse = async () => {
      await last().answer({ detail: "odd" }, 400);
      await clock.advance(1_000);
    };
    await wait("a");
    for (let i = 0; i < 3; i++) await refuse();
    await last().answer(answer(1)); // good again
    await clock.advance(4);
    for (let i = 0; i < 3; i++) await refuse();
    expect([asked.length, over]).toEqual([8, []]);
    await refuse();
    expect(over).toEqual(["a: alone"]);
    await clock.advance(600_000);
    expect(asked).toHaveLength(8);
    expect(logger.with("one by one")).toEqual([
      expect.stringMatching(/^warn: .*retrieve_futures failed permanently.*odd/),
    ]);
  });

  it("permanently: from then on every sample is polled alone", async () => {
    const { wait, asked, last, over, poller, clock, logger } = play();
    await wait("a");
    await wait("b");
    poller.fetched("x");
    await last().answer({ detail: "no such route" }, 404);
    expect(over).toEqual(["a: alone", "b: alone"]);
    await wait("c");
    poller.fetched("y");
    await clock.advance(600_000);
    expect([asked.length, over.at(-1)]).toEqual([1, "c: alone"]);
    expect(logger.with("one by one")).toHaveLength(1);
  });

  it("waits for billing after a 402, as all calls do", async () => {
    const { wait, asked, last, over, clock, session } = play();
    await wait("a");
    await last().answer({ detail: "unpaid" }, 402);
    await clock.advance(4_999);
    expect(asked).toHaveLength(1);
    await clock.advance(1);
    expect(asked).toHaveLength(2);
    session.transport.billing.maxPauseMs = 5_000;
    await last().answer({ detail: "unpaid" }, 402);
    expect(over).toEqual(["a: alone"]);
  });

  it("because the client was closed is not worth a word", async () => {
    const { wait, over, session, logger, clock } = play();
    await wait("a");
    void session.close();
    await clock.advance(60_000);
    expect(over).toEqual(["a: alone"]);
    expect(logger.with("one by one")).toEqual([]);
  });
});

describe("abandoned samples", () => {
  it("are cancelled in batches, including those added meanwhile; a failed cancellation is only logged", async () => {
    const { session, asked, clock, logger } = play();
    const list = ["a", "b", "c"];
    let done = false;
    void tellAbandoned(session, list, 2).then(() => {
      done = true;
    });
    await clock.advance(0);
    const ids = () => asked.map(({ path, body }) => `${path} ${String(body["request_id"])}`);
    expect(ids()).toEqual(["cancel_future a", "cancel_future b"]);
    list.push("d", "e");
    await asked[0]?.answer({});
    expect(asked).toHaveLength(2);
    await asked[1]?.answer({ detail: "gone" }, 404);
    expect(ids().slice(2)).toEqual(["cancel_future c", "cancel_future d"]);
    expect(logger.with("Sample b could not be cancelled")).toEqual([expect.stringMatching(/^debug: .*gone/)]);
    for (const each of asked.slice(2)) await each.answer({});
    await asked[4]?.answer({});
    expect([done, list, ids().at(-1)]).toEqual([true, [], "cancel_future e"]);
  });

  it("are tried three times more, one by one where the server allows no batch", async () => {
    const { session, asked, clock } = play();
    void tellAbandoned(session, ["a", "b"], 0);
    await clock.advance(0);
    for (let i = 0; i < 4; i++) {
      expect(asked.map(({ body }) => body["request_id"])).toEqual(new Array(i + 1).fill("a"));
      await asked[i]?.answer({ detail: "busy" }, 503);
      for (let waited = 0; asked.length === i + 1 && waited < 20; waited++) await clock.advance(1_000);
    }
    expect(asked.map(({ body }) => body["request_id"])).toEqual(["a", "a", "a", "a", "b"]);
  });
});
