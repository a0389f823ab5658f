/** Names of runs: how they are assigned, where they are shown, and that they are private to their tenant. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { describe, expect, onTestFinished, test } from "vitest";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import { openDatabase } from "../store/database.ts";
import { freeName } from "../store/tables/names.ts";
import { baseModel, TestServer, type TestServerOptions } from "../testing/test-server.ts";
import { hashApiKey } from "./access/auth.ts";

const tokenizer = tokenizerFromFiles(tinyTokenizer, "tiny");
/** A server whose replies say whether the base model or an adapter has made them. */
const open = async (options: TestServerOptions = {}) => {
  const reply: NonNullable<TestServerOptions["engine"]>["reply"] = ({ adapter }) => [
    ...tokenizer.encode(adapter === undefined ? "base" : "own", { addSpecialTokens: false }),
    267,
  ];
  const server = await TestServer.open({ engine: { reply }, ...options });
  onTestFinished(() => server.close());
  return server;
};

/** Creates a run and returns its id. */
const makeRun = async (server: TestServer, userMetadata?: unknown, session: object = {}): Promise<string> => {
  const opened = await server.post("create_session", { tags: [], sdk_version: "test", ...session });
  const made = await server.result(
    server.post("create_model", {
      session_id: opened.json.session_id,
      model_seq_id: 0,
      base_model: baseModel,
      lora_config: { rank: 4, seed: 1 },
      ...(userMetadata === undefined ? {} : { user_metadata: userMetadata }),
    }),
  );
  return made.model_id as string;
};
const nameOf = async (server: TestServer, run: string) => (await server.get(`training_runs/${run}`)).json.name;
const named = async (server: TestServer, userMetadata?: unknown, session?: object) =>
  nameOf(server, await makeRun(server, userMetadata, session));
const save = async (server: TestServer, run: string, seq: number, name: string, kind = "save_weights_for_sampler") => {
  server.clock.jump(1000);
  return (await server.result(server.post(kind, { model_id: run, seq_id: seq, path: name }))).path as string;
};
const chat = (server: TestServer, model: unknown) =>
  server.post("/v1/chat/completions", { model, messages: [{ role: "user", content: "hello" }] });

describe("a run gets a name", () => {
  test("that its client gave, with a number if another run has it", async () => {
    const server = await open();
    expect(await named(server, { name: "bike" })).toBe("bike");
    expect(await named(server, { name: "bike" })).toBe("bike-2");
    expect(await named(server, { name: "bike" })).toBe("bike-3");
    expect(await named(server, { name: "bike-2" })).toBe("bike-2-2");
    expect(await named(server, { name: "Bike" })).toBe("Bike");
  });

  test("else from its session, else `run`; unsuitable texts are made suitable and never refused", async () => {
    const server = await open();
    expect(await named(server, undefined, { display_name: "My run" })).toBe("My-run");
    expect(await named(server, undefined, { user_metadata: { program: "train.ts" } })).toBe("train");
    expect(await named(server)).toBe("run");
    expect(await named(server)).toBe("run-2");
    for (const [name, expected] of [
      ["org/model", "org-model"],
      ["tinker://a/weights/b", "tinker-a-weights-b"],
      ["データ", "run-3"],
      ["x".repeat(60_000), "x".repeat(48)],
      [{ not: "a string" }, "run-4"],
      ["\u0000\u001b[2J", "2J"],
    ]) {
      expect(await named(server, { name })).toBe(expected);
    }
  });

  test("that no served model has", async () => {
    const { fakeEngine } = await import("../testing/fake-engine.ts");
    const models = [baseModel, "tiny"].map((name) => ({ name, open: async () => fakeEngine() }));
    const server = await open({ models });
    expect(await named(server, { name: "tiny" })).toBe("tiny-2");
  });

  test("that the run it resumes has", async () => {
    const server = await open();
    const first = await makeRun(server, { name: "bike" });
    const path = await save(server, first, 1, "000020", "save_weights");
    expect(await named(server, { name: "bike", resumed_from: path })).toBe("bike");
    expect(await named(server, { name: "other", resumed_from: path })).toBe("bike");
    for (const missing of ["tinker://none:train:0/weights/a", "nonsense", 7, "x".repeat(5000)]) {
      expect(await named(server, { name: "fresh", resumed_from: missing })).toMatch(/^fresh/);
    }
  });

  test("with few lookups, for any names that are taken", () => {
    for (const isTaken of [(n: number) => n < 100_000, (n: number) => (n & (n - 1)) === 0, () => true]) {
      let lookups = 0;
      const name = freeName("bike", (tried) => {
        lookups++;
        return tried === "bike" || (/^bike-\d+$/.test(tried) && isTaken(Number(tried.slice(5))));
      });
      expect(name.length).toBeLessThanOrEqual(64);
      expect(lookups).toBeLessThan(85);
    }
    const taken = new Set(["bike", "bike-2", "bike-3", "bike-4", "bike-5"]);
    expect(freeName("bike", (name) => taken.has(name))).toBe("bike-6");
  });

  test("at the next start, if an earlier release has made it", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "tinklet-names-"));
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    const before = await open({ dataDir });
    const runs: string[] = [];
    for (const metadata of [{ name: "bike" }, { name: "bike" }, undefined]) {
      runs.push(await makeRun(before, metadata));
      before.clock.jump(1000);
    }
    await before.close();
    const database = openDatabase({ file: join(dataDir, "tinklet.db") });
    await database.write((sql) => sql.run("UPDATE models SET name = NULL WHERE name <> 'bike-2'"));
    await database.close();
    const after = await open({ dataDir });
    expect(await Promise.all(runs.map((run) => nameOf(after, run)))).toEqual(["bike", "bike-2", "run"]);
    expect(after.logged).toContainEqual({ level: "info", event: "runs.named", count: 2 });
  });
});

describe("names in requests and lists", () => {
  test("chat endpoints accept a run's name with and without a checkpoint; a resumed run counts as the same one", async () => {
    const server = await open();
    const first = await makeRun(server, { name: "bike" });
    expect((await chat(server, "bike")).status).toBe(404);
    const path = await save(server, first, 1, "000040", "save_weights");
    await save(server, first, 2, "000040");
    const second = await makeRun(server, { name: "bike", resumed_from: path });
    await save(server, second, 1, "best");
    await save(server, second, 2, "final");
    for (const model of [
      "bike",
      "bike@step-40",
      "bike@000040",
      "bike@best",
      "bike@final",
      "bike:final",
      `${first}@step-40`,
    ]) {
      const { status, json } = await chat(server, model);
      expect([model, status, json.choices?.[0].message.content, json.model]).toEqual([model, 200, "own", model]);
      const anthropic = { model, max_tokens: 10, messages: [{ role: "user", content: "hello" }] };
      expect((await server.post("/anthropic/api/v1/messages", anthropic)).status).toBe(200);
    }
    for (const model of [
      "bike@",
      "@best",
      "bike@step-41",
      "bike@step-40@best",
      "bike-2",
      "Bike",
      "bike/final",
      "bike@%00",
      `bike@${"9".repeat(900)}`,
    ]) {
      expect([model, (await chat(server, model)).status]).toEqual([model, 404]);
    }
  });

  test("an exact name wins over the step, and newer weights over older ones", async () => {
    const server = await open();
    const run = await makeRun(server, { name: "bike" });
    await save(server, run, 1, "000040");
    const exact = await save(server, run, 2, "step-40");
    const last = await save(server, run, 3, "final");
    const pathOf = async (model: string) => (await server.get(`/v1/models/${model}`)).json.tinker_path;
    expect(await pathOf("bike@step-40")).toBe(exact);
    expect(await pathOf("bike")).toBe(last);
  });

  test("the list of models has one entry per checkpoint", async () => {
    const server = await open();
    const run = await makeRun(server, { name: "bike" });
    await save(server, run, 1, "000040", "save_weights");
    const sampler = await save(server, run, 2, "000040");
    await save(server, run, 3, "000040x", "save_weights");
    const { data } = (await server.get("/v1/models")).json;
    expect(data.map(({ id }: { id: string }) => id)).toEqual([baseModel, "bike", "bike@000040x", "bike@step-40"]);
    expect(data[1]).toMatchObject({ tinker_path: sampler, parent: baseModel });
    const { json } = await server.get("/anthropic/api/v1/models");
    expect(json.data.map(({ id }: { id: string }) => id)).toContain("bike@step-40");
  });

  test("runs and checkpoints are listed with names", async () => {
    const server = await open();
    const run = await makeRun(server, { name: "bike" });
    await save(server, run, 1, "000040", "save_weights");
    await save(server, run, 2, "000040");
    const { json: runs } = await server.get("training_runs");
    expect(runs.training_runs[0]).toMatchObject({ name: "bike", last_checkpoint: { reference: "bike@step-40" } });
    const { json: own } = await server.get("checkpoints");
    expect(own.checkpoints.map((one: { reference: string }) => one.reference)).toEqual([
      "bike@step-40",
      "bike@step-40",
    ]);
    const { json: ofRun } = await server.get(`training_runs/${run}/checkpoints`);
    expect(ofRun.checkpoints[0].run_name).toBe("bike");
    const { json: progress } = await server.get("tinklet/progress");
    expect(progress.runs[0].name).toBe("bike");
  });
});

test("another tenant's names are neither found nor shown, even if its checkpoints are published", async () => {
  const apiKeys = ["one", "two"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) }));
  const server = await open({ apiKeys });
  server.key = "tml-one";
  const run = await makeRun(server, { name: "secret", team: "red" });
  const path = await save(server, run, 1, "final");
  expect((await server.get(`training_runs/${run}`)).json.user_metadata).toEqual({ name: "secret", team: "red" });
  await server.post(`training_runs/${run}/checkpoints/sampler_weights/final/publish`);

  server.key = "tml-two";
  const refused = async (model: string) => {
    const { status, json } = await chat(server, model);
    expect(status).toBe(404);
    return json.error.message.replaceAll(model, "NAME");
  };
  expect(await refused("secret")).toBe(await refused("unused"));
  expect(await refused("secret@final")).toBe(await refused("unused@final"));
  expect((await chat(server, path)).status).toBe(200); // published, so its path works
  const { json: shared } = await server.get("training_runs?access_scope=accessible");
  expect(shared.training_runs).toHaveLength(1);
  expect(shared.training_runs[0].user_metadata).toEqual({ team: "red" });
  const { json: one } = await server.get(`training_runs/${run}?access_scope=accessible`);
  expect(one.training_run_id).toBe(run);
  for (const shown of [shared, one]) expect(JSON.stringify(shown)).not.toContain("secret");
  const { json: ofRun } = await server.get(`training_runs/${run}/checkpoints`);
  expect(ofRun.checkpoints[0].reference).toBeUndefined();
  expect(await named(server, { name: "secret" })).toBe("secret");
  expect(await named(server, { name: "secret", resumed_from: path })).toBe("secret-2");
});
