// Models that the server refuses because too many are trained wait in a line instead of failing.
import { RequestFailedError, statusError } from "@tinklet/wire/errors";
import { describe, expect, it } from "vitest";
import type { Fault } from "../../testing/faults.ts";
import { failure, harness } from "../../testing/harness.ts";
import { isModelLimit } from "./model-line.ts";

const full: Fault = { kind: "status", status: 429, body: { detail: "Too many concurrent training clients: 4 of 4." } };
const model = { baseModel: "stub/model", rank: 8 };

it.each([
  [statusError("429: Too many concurrent models", { status: 429 }), true],
  [statusError("the limit of 4 concurrent training runs is reached", { status: 409 }), true],
  [new RequestFailedError("too many models are loaded", { requestId: "r", category: "user" }), true],
  [statusError("Too many requests", { status: 429 }), false],
  [statusError("Too many concurrent models", { status: 422 }), false],
  [new RequestFailedError("the rank exceeds the limit of the model", { requestId: "r", category: "user" }), false],
  [new Error("too many models"), false],
])("%s: %s", (error, expected) => expect(isModelLimit(error)).toBe(expected));

describe("a server with room for some models", () => {
  /** A server that has room for `room` models. */
  const crowded = (room: number) => {
    const state = { room };
    const parts = harness(
      {
        faults: ({ operation }) => {
          if (operation !== "createModel") return undefined;
          if (state.room === 0) return full;
          state.room--;
          return undefined;
        },
      },
      { maxRetries: 0 },
    );
    return { ...parts, state };
  };

  it("creates the waiting models in the order of the calls, one attempt at a time, and says what they wait for", async () => {
    const { service, stub, clock, events, run, state } = crowded(1);
    await run(service.createLoraTrainingClient(model));
    const calls = [1, 2, 3].map((seed) => service.createLoraTrainingClient({ ...model, seed }));
    const order: number[] = [];
    for (const [at, call] of calls.entries()) void call.then(() => order.push(at));
    await clock.advance(60_000);
    const explained = calls[2]!.explain();
    expect(explained).toMatchObject({ phase: "waiting", queueState: "paused_rate_limit" });
    expect(explained.text).toContain("Too many concurrent training clients: 4 of 4");
    expect(events.filter((event) => event.type === "future.paused").length).toBeGreaterThanOrEqual(3);
    state.room = 3;
    await run(Promise.all(calls));
    expect(order).toEqual([0, 1, 2]);
    const attempts = stub
      .callsOf("createModel")
      .map(({ body }) => (body as { loraConfig: { seed?: number } }).loraConfig.seed);
    // The second and the third were refused once each; only the first kept asking.
    expect(attempts.filter((seed) => seed === 3)).toHaveLength(2);
  });

  it("lets no later call take the room that others wait for", async () => {
    const { service, clock, run, state } = crowded(0);
    const first = service.createLoraTrainingClient(model);
    await clock.advance(1_000);
    state.room = 1;
    const later = service.createLoraTrainingClient({ ...model, timeoutMs: 30_000 });
    expect((await run(first)).modelId).toContain("train");
    expect(await run(failure(later))).toMatchObject({ code: "timeout" });
  });

  it("leaves the line when the call is aborted or its time is over, and lets the next one in", async () => {
    const { service, run, state } = crowded(0);
    const stop = new AbortController();
    const first = service.createLoraTrainingClient({ ...model, signal: stop.signal });
    const second = service.createLoraTrainingClient({ ...model, timeoutMs: 20_000 });
    const third = service.createLoraTrainingClient(model);
    expect(await run(failure(second))).toMatchObject({ code: "timeout" });
    stop.abort(new Error("enough"));
    expect(await run(failure(first))).toMatchObject({ message: "enough" });
    state.room = 1;
    expect((await run(third)).modelId).toContain("train");
  });

  it("does not wait for another error", async () => {
    const { service, run } = harness(
      {
        faults: ({ operation }) =>
          operation === "createModel" ? { kind: "status", status: 422, body: {} } : undefined,
      },
      { maxRetries: 0 },
    );
    expect(await run(failure(service.createLoraTrainingClient(model)))).toMatchObject({ status: 422 });
  });
});
