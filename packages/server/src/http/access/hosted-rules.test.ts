import { contract, type Operation } from "@tinklet/wire";
import { describe, expect, it, onTestFinished } from "vitest";
import { TestServer } from "../../testing/test-server.ts";
import { hostedRules } from "./hosted-rules.ts";

let server: TestServer;
const close = () => server.close();

/** A model with a step and a checkpoint. */
async function trained(): Promise<{ model: string; path: string }> {
  const model = await server.model();
  await server.passResult(server.pass(model, 1));
  await server.result(server.optim(model, 2));
  const saved = await server.result(server.post("save_weights", { model_id: model, seq_id: 3, path: "a" }));
  return { model, path: saved.path as string };
}

const load = (model: string, seq: number, path: string) =>
  server.post("load_weights", { model_id: model, seq_id: seq, path, optimizer: false });

const usage = (from: string, to: string) =>
  server.get(`billing/usage/events?starting_on=${encodeURIComponent(from)}&ending_before=${encodeURIComponent(to)}`);

/** For each rule, a call that violates it. */
const breaking: Record<
  string,
  (things: { model: string; path: string }) => Promise<{ status: number; json: unknown }>
> = {
  load_weights_first: ({ model, path }) => load(model, 4, path),
  ttl_at_least_an_hour: ({ model }) =>
    server.post("save_weights", { model_id: model, seq_id: 4, path: "b", ttl_seconds: 600 }),
  billing_window: () => usage("2026-01-01T00:00:00Z", "2026-01-15T01:00:00Z"),
  archive_retired: ({ model }) => server.get(`training_runs/${model}/checkpoints/weights/a/archive`),
};

/** Rules of calls without a `seq_id`. */
const unnumbered = ["archive_retired", "billing_window"];

describe("rules of the hosted service", () => {
  it("each have a source, a test case and existing routes", () => {
    expect(Object.keys(breaking).sort()).toEqual(hostedRules.map(({ name }) => name).sort());
    for (const { source, operations } of hostedRules) {
      expect(source.length).toBeGreaterThan(20);
      for (const operation of operations) expect(contract[operation as Operation]).toBeDefined();
    }
  });

  it.each(hostedRules)("$name: the call succeeds and is logged once", async ({ name }) => {
    server = await TestServer.open();
    onTestFinished(close);
    const things = await trained();
    const first = await breaking[name]!(things);
    expect(first.status).toBe(200);
    await breaking[name]!(things);
    const logged = server.logged.filter(({ event }) => event === "hosted_rule.violated");
    expect(logged).toHaveLength(1);
    expect(logged[0]).toMatchObject({ level: "warn", meaning: "the hosted service refuses this" });
  });

  it("does not log the archive for our own clients, which export where it is refused", async () => {
    server = await TestServer.open();
    onTestFinished(close);
    const { model } = await trained();
    const archive = `training_runs/${model}/checkpoints/weights/a/archive`;
    expect((await server.send("GET", archive, undefined, { "user-agent": "tinklet/0.1.0" })).status).toBe(200);
    const logged = () => server.logged.filter(({ event }) => event === "hosted_rule.violated").length;
    expect(logged()).toBe(0);
    await server.send("GET", archive, undefined, { "user-agent": "Tinker/Python 0.36.0" });
    expect(logged()).toBe(1);
  });

  it.each(hostedRules)(
    "$name: a strict server refuses the call, which uses up its number",
    async ({ name, status }) => {
      server = await TestServer.open({ strict: true });
      onTestFinished(close);
      const things = await trained();
      const refused = await breaking[name]!(things);
      expect([refused.status, JSON.stringify(refused.json)]).toEqual([status, expect.stringContaining("strict: ")]);
      const next = await server.passResult(server.pass(things.model, unnumbered.includes(name) ? 4 : 5));
      expect(next.metrics).toHaveProperty("loss:sum");
      expect(server.logged.filter(({ event }) => event === "hosted_rule.violated")).toEqual([]);
    },
  );

  it("a strict server bills by full hours in UTC, for two weeks at most", async () => {
    server = await TestServer.open({ strict: true });
    onTestFinished(close);
    const statusOf = async (from: string, to: string) => (await usage(from, to)).status;
    expect(await statusOf("2026-01-01T00:00:00Z", "2026-01-15T00:00:00Z")).toBe(200);
    expect(await statusOf("2026-01-01T00:00:00+01:00", "2026-01-01T02:00:00Z")).toBe(200);
    expect(await statusOf("2026-01-01T00:30:00Z", "2026-01-02T00:00:00Z")).toBe(400);
    expect(await statusOf("2026-01-01T00:00:00Z", "2026-01-02T00:00:01Z")).toBe(400);
    const refused = await usage("2026-01-01T00:00:00Z", "2026-01-15T01:00:00Z");
    expect(JSON.stringify(refused.json)).toMatch(/ending_before is 14\.04\d* days after starting_on; at most 14/);
  });

  it("a strict server accepts what the service accepts", async () => {
    server = await TestServer.open({ strict: true });
    onTestFinished(close);
    const { path } = await trained();
    const fresh = await server.model();
    expect((await server.result(load(fresh, 1, path))).type).toBe("load_weights");
    const kept = await server.post("save_weights", { model_id: fresh, seq_id: 2, path: "c", ttl_seconds: 3600 });
    expect(kept.status).toBe(200);
    const created = await server.post("load_weights", {
      session_id: await server.session(),
      model_seq_id: 3,
      path,
      optimizer: false,
    });
    expect(created.status).toBe(200);
  });
});
