/** The `Server-Timing` of results, and how the client's `step()` reads it. */
import { Datum, ModelInput, ServiceClient } from "@tinklet/sdk";
import { expect, test } from "vitest";
import { baseModel, TestServer } from "./testing/test-server.ts";

const batch = [
  new Datum({
    modelInput: ModelInput.fromInts([1, 2, 3]),
    lossFnInputs: { target_tokens: [2, 3, 4], weights: [1, 1, 1] },
  }),
];

test("step() returns the queue time and the compute time that the server reports", async () => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const costMs: Record<string, number> = { forwardBackward: 40, optimStep: 2 };
  let passes = 0;
  const server: TestServer = await TestServer.open({
    engine: {
      beforeCall: async (name) => {
        if (name === "forwardBackward" && passes++ === 0) await held;
        await new Promise(setImmediate); // the engine computes in its own thread: events that are ready here run first
        server.clock.jump(costMs[name] ?? 0);
      },
    },
  });
  const service = new ServiceClient({
    apiKey: "tml-test",
    baseUrl: "http://localhost",
    logLevel: "off",
    fetch: (url, init) => server.server.fetch(new Request(url, init)),
  });
  const trainer = await service.createLoraTrainingClient({ baseModel, rank: 4 });
  const before = trainer.forwardBackward(batch, "cross_entropy");
  const step = trainer.step(batch, "cross_entropy", { learningRate: 0.01 });
  await step.submitted;
  server.clock.jump(100);
  release();
  await before;
  const { queueMs, computeMs, metrics } = await step;
  expect({ queueMs, computeMs }).toEqual({ queueMs: 140, computeMs: 42 });
  expect(Object.keys(metrics).filter((name) => name.includes("ms"))).toEqual([]); // the same result whenever it runs
  await service.close();
  await server.close();
});

test("a sample's header and the server's counters report the cached prompt tokens, at once and from the store", async () => {
  const server = await TestServer.open({ engine: { cachedTokens: 2 } });
  const { json } = await server.post("asample", {
    base_model: baseModel,
    prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2, 3] }] },
    sampling_params: { max_tokens: 1 },
  });
  const timing = 'queue;dur=0, compute;dur=0, cache;desc="2 prompt tokens"';
  expect((await server.retrieve(json.request_id)).headers.get("server-timing")).toBe(timing);
  await server.clock.advance(60_000); // the sweep drops results from memory: this one comes from the store
  expect((await server.retrieve(json.request_id)).headers.get("server-timing")).toBe(timing);
  const metrics = await (await server.server.fetch(new Request("http://localhost/metrics"))).text();
  expect(metrics).toMatch(/^tinklet_tokens_total\{kind="sampling_prefill_cached"\} 2$/m);
  expect(metrics).toMatch(/^tinklet_tokens_total\{kind="sampling_prefill"\} 1$/m);
  await server.close();
});

test("a stored result has its time again, and a request that did not run has none", async () => {
  const server: TestServer = await TestServer.open({ engine: { beforeCall: () => server.clock.jump(30) } });
  const model = await server.model();
  const { json } = await server.pass(model, 1);
  const first = await server.retrieve(json.request_id);
  expect(first.headers.get("server-timing")).toBe("queue;dur=0, compute;dur=30");
  await server.clock.advance(60_000); // the sweep drops results from memory: this one comes from the store
  const again = await server.retrieve(json.request_id);
  expect(again.headers.get("server-timing")).toBe("queue;dur=0, compute;dur=30");
  expect(again.bytes).toEqual(first.bytes);
  const session = await server.session();
  const refused = await server.post("asample", {
    session_id: session,
    base_model: baseModel,
    prompt: { chunks: [{ type: "encoded_text", tokens: [1] }] },
    sampling_params: { temperature: -1 },
    num_samples: 1,
  });
  const failed = await server.retrieve(refused.json.request_id);
  expect(failed.json.error).toContain("temperature");
  expect(failed.headers.get("server-timing")).toBeNull();
  await server.close();
});
