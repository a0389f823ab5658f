import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "@tinklet/wire/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { passBytes, TestServer, type TestServerOptions } from "../../testing/test-server.ts";
import { hashApiKey } from "../access/auth.ts";

const open = async (options?: TestServerOptions) => {
  const server = await TestServer.open(options);
  onTestFinished(() => server.close());
  return server;
};

/** One optimizer step of a run; returns the next number. */
async function step(server: TestServer, model: string, seq: number, learningRate = 0.01): Promise<number> {
  await server.passResult(server.pass(model, seq));
  await server.result(server.optim(model, seq + 1, learningRate));
  return seq + 2;
}

/** The events of a stream. */
async function* events(server: TestServer, path: string, headers: Record<string, string> = {}) {
  const request = new Request(`http://localhost/api/v1/${path}`, { headers: { "x-api-key": server.key, ...headers } });
  const response = await server.server.fetch(request);
  expect(response.status).toBe(200);
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const of = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (of("event") !== undefined) yield { event: of("event"), id: of("id"), data: JSON.parse(of("data")!) };
    }
  }
}
type StreamEvent = { event: string | undefined; id: string | undefined; data: Record<string, never> };
const next = async (stream: AsyncGenerator<StreamEvent>, kind: string) => {
  for (;;) {
    const { value } = await stream.next();
    if (value === undefined || value.event === kind) return value;
  }
};

describe("a run's curve", () => {
  test("has one row for each optimizer step: tokens, loss, gradient norm, rate", async () => {
    const server = await open();
    const model = await server.model();
    await server.passResult(server.pass(model, 1));
    await server.passResult(server.pass(model, 2, { tokens: [1, 2] }));
    await server.result(server.optim(model, 3, 0.5));
    await step(server, model, 4, 0.25);
    const { json } = await server.get(`tinklet/runs/${model}/steps`);
    expect(json.steps.step).toEqual([1, 2]);
    expect(json.steps.tokens).toEqual([6, 10]);
    expect(json.steps.learning_rate).toEqual([0.5, 0.25]);
    expect(json.steps.loss.every(Number.isFinite)).toBe(true);
    expect(json.steps.gradient_norm.every(Number.isFinite)).toBe(true);
    expect(json.run).toMatchObject({ run_id: model, status: "idle", steps: 2, tokens: 10 });
    expect(json.run.sparkline).toEqual(json.steps.loss);
    expect(json.config.lora.rank).toBe(4);
    const later = await server.get(`tinklet/runs/${model}/steps?after=${json.steps.id[0]}`);
    expect(later.json.steps.step).toEqual([2]);
  });

  test("is bounded: of a long run every second row is kept, and always the last", async () => {
    const server = await open({ limits: { stepsPerRun: 8 } });
    const model = await server.model();
    let seq = 1;
    for (let i = 0; i < 33; i++) seq = await step(server, model, seq);
    const { steps } = (await server.get(`tinklet/runs/${model}/steps`)).json;
    expect(steps.step.length).toBeLessThanOrEqual(16);
    expect(steps.step.at(-1)).toBe(33);
    expect(steps.tokens.at(-1)).toBe(33 * 4);
  });

  test("is deleted with its run, and shows why a run waits", async () => {
    const server = await open();
    const model = await server.model();
    await step(server, model, 1);
    await server.pass(model, 9);
    const waiting = (await server.get("tinklet/progress")).json.runs[0];
    expect(waiting).toMatchObject({ status: "waiting", reason: expect.stringContaining("seq_id 3") });
    const other = await server.model(undefined, { seed: 2 });
    await step(server, other, 1);
    expect((await server.get(`tinklet/runs/${other}/steps`)).json.steps.step).toEqual([1]);
    expect((await server.post(`tinklet/runs/${other}/delete`)).status).toBe(200);
    expect((await server.get(`tinklet/runs/${other}/steps`)).status).toBe(404);
  });

  test("a request that failed is among the run's events", async () => {
    const server = await open();
    const model = await server.model();
    await server.result(server.post("forward_backward", passBytes(model, 1, { lossFn: "unheard_of" })));
    const { events: told } = (await server.get(`tinklet/runs/${model}/steps`)).json;
    expect(told[0]).toMatchObject({ detail: expect.stringContaining("unheard_of") });
    expect(told[0].kind).toBe("failed");
    expect(told.at(-1)).toMatchObject({ kind: "created" });
  });

  test("so are a refused request, and restarts of the server between its requests and right after them", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "tinklet-starts-"));
    const clock = new FakeClock();
    const used = async (work?: (server: TestServer) => Promise<unknown>) => {
      const server = await TestServer.open({ dataDir, clock });
      await work?.(server);
      await server.close();
      await clock.advance(60_000);
    };
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    let model = "";
    await used(async (server) => {
      model = await server.model();
      await step(server, model, 1);
    });
    await used(async (server) => {
      await server.post("optim_step", { model_id: model, seq_id: 3, adam_params: { learning_rate: "fast" } });
    });
    await used();
    await used();
    const server = await open({ dataDir, clock });
    const { events: told } = (await server.get(`tinklet/runs/${model}/steps`)).json;
    expect(told.map(({ kind }: { kind: string }) => kind)).toEqual(["restarted", "refused", "restarted", "created"]);
  });
});

describe("the stream of runs", () => {
  test("sends steps as they are stored, and resumes after the last id", async () => {
    const server = await open();
    const model = await server.model();
    const stream = events(server, "tinklet/events") as AsyncGenerator<StreamEvent>;
    expect((await stream.next()).value).toMatchObject({ event: "ready" });
    let seq = await step(server, model, 1);
    await server.clock.advance(300);
    const first = await next(stream, "steps");
    expect(first).toMatchObject({ data: { run_id: model, steps: { step: [1] } } });
    await stream.return(undefined);
    seq = await step(server, model, seq);
    await step(server, model, seq);
    const again = events(server, "tinklet/events?follow=false", { "last-event-id": first!.id! });
    const missed = await next(again as AsyncGenerator<StreamEvent>, "steps");
    expect(missed).toMatchObject({ data: { run_id: model, steps: { step: [2, 3] } } });
  });

  test("a reader with an id of another server gets a reset event", async () => {
    const server = await open();
    const stream = events(server, "tinklet/events?follow=false&after=abc.99") as AsyncGenerator<StreamEvent>;
    expect((await stream.next()).value).toMatchObject({ event: "reset", id: expect.stringMatching(/^[0-9a-f]{32}$/) });
  });

  test("a tenant receives its own runs only", async () => {
    const server = await open({
      apiKeys: ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
    });
    server.key = "tml-bob";
    const bobs = events(server, "tinklet/events") as AsyncGenerator<StreamEvent>;
    const { id: start } = (await bobs.next()).value as StreamEvent;
    server.key = "tml-alice";
    const hers = await server.model();
    await step(server, hers, 1);
    server.key = "tml-bob";
    const his = await server.model();
    await step(server, his, 1);
    await server.clock.advance(300);
    expect(await next(bobs, "steps")).toMatchObject({ data: { run_id: his } });
    await bobs.return(undefined);
    const missed = events(server, `tinklet/events?follow=false&after=${start}`) as AsyncGenerator<StreamEvent>;
    const told: string[] = [];
    for await (const { event, data } of missed) if (event === "steps") told.push(data["run_id"]!);
    expect(told).toEqual([his]);
  });

  test("the number of streams per tenant is limited", async () => {
    const server = await open({ limits: { watchersPerTenant: 1 } });
    const stream = events(server, "tinklet/events") as AsyncGenerator<StreamEvent>;
    await stream.next();
    expect((await server.get("tinklet/events")).status).toBe(429);
    await stream.return(undefined);
    expect((await server.get("tinklet/events?follow=false")).status).toBe(200);
  });

  test("closing the server ends it", async () => {
    const server = await TestServer.open();
    const stream = events(server, "tinklet/events");
    await stream.next();
    await server.close();
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });
});

test("the server's state has the token rates of the caller only", async () => {
  const server = await open();
  const model = await server.model();
  await step(server, model, 1);
  const { json } = await server.get("tinklet/server");
  expect(json).toMatchObject({ durable: false, pending_requests: 0, models: [{ base_model: "test/model" }] });
  expect(json.rates.training.at(-1)).toBe(4);
  server.clock.jump(10_000);
  const later = (await server.get("tinklet/server")).json.rates.training;
  expect(later.slice(-2)).toEqual([4, 0]);
  server.clock.jump(3_600_000);
  expect((await server.get("tinklet/server")).json.rates.training.every((n: number) => n === 0)).toBe(true);
});
