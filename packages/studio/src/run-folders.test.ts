import { appendFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { GrowingLines } from "./growing-lines.ts";
import { MetricColumns } from "./metric-columns.ts";
import { runFolders } from "./run-folders.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "studio-"));
  return () => rm(root, { recursive: true, force: true });
});

describe("a JSONL file that is being appended to", () => {
  test("reading continues after the last complete line; an incomplete line is deferred", async () => {
    const file = join(root, "metrics.jsonl");
    const lines = new GrowingLines(file);
    expect(await lines.read()).toEqual([]);
    await writeFile(file, '{"step":0}\n{"step":1}\n{"st');
    expect(await lines.read()).toEqual([{ step: 0 }, { step: 1 }]);
    await appendFile(file, 'ep":2}\n');
    expect(await lines.read()).toEqual([{ step: 0 }, { step: 1 }, { step: 2 }]);
  });

  test("lines that are not objects are skipped, and non-finite numbers are missing", async () => {
    const file = join(root, "metrics.jsonl");
    await writeFile(file, '7\nnot json\n{"step":1,"loss":NaN,"x":[-Infinity, 2]}\n\n{"text":"NaN, ok"}\n');
    expect(await new GrowingLines(file).read()).toEqual([{ step: 1, loss: null, x: [null, 2] }, { text: "NaN, ok" }]);
  });

  test("a replaced file is read from the start", async () => {
    const file = join(root, "metrics.jsonl");
    await writeFile(file, '{"step":0}\n{"step":1}\n');
    const lines = new GrowingLines(file);
    await lines.read();
    await writeFile(file, '{"step":5}\n');
    expect(await lines.read()).toEqual([{ step: 5 }]);
  });

  test("a character that spans two chunks is decoded", async () => {
    const file = join(root, "metrics.jsonl");
    const lines = new GrowingLines(file);
    const bytes = Buffer.from('{"a":"é"}\n');
    await writeFile(file, bytes.subarray(0, 7));
    await lines.read();
    await appendFile(file, bytes.subarray(7));
    expect(await lines.read()).toEqual([{ a: "é" }]);
  });
});

describe("metric columns", () => {
  test("contain finite numbers; absent metrics are missing", () => {
    const columns = new MetricColumns();
    columns.add({ step: 0, text: "x" });
    for (let step = 1; step < 200; step++) columns.add({ step, late: step === 150 ? Number.POSITIVE_INFINITY : step });
    expect(columns.rows).toBe(200);
    expect([...columns.names]).toEqual(["step", "late"]);
    expect(columns.after(149)["late"]!.slice(0, 3)).toEqual([149, null, 151]);
    expect(columns.after(0)["late"]![0]).toBeNull();
    columns.clear();
    expect([columns.rows, columns.after(0)]).toEqual([0, {}]);
  });

  test("are bounded for any number of names", () => {
    const columns = new MetricColumns(10_000);
    let row = 0;
    while (row < 1000 && columns.add({ step: row, [`name ${row}`]: 1 })) row++;
    expect([columns.rows, [...columns.names].length]).toEqual([100, 100]);
    expect(columns.add({ step: 1 })).toBe(false);
  });
});

describe("run folders", () => {
  const write = async (path: string, text: string) => {
    await mkdir(join(root, path, ".."), { recursive: true });
    await writeFile(join(root, path), text);
  };

  test("are found below the given folders, with the training run of their checkpoints", async () => {
    await write("a/metrics.jsonl", '{"step":0,"train_mean_nll":2}\n{"step":1,"train_mean_nll":1.5}\n');
    await write("a/config.json", '{"model_name":"m","lora_rank":8}');
    await write("a/checkpoints.jsonl", '{"name":"x","state_path":"tinker://s-1:train:0/weights/x"}\n');
    await write("a/train_data.jsonl", '{"tokens":[1,2],"weights":[0,1]}\n');
    await write("deep/b/metrics.jsonl", '{"step":0,"env/all/reward/total":0.5}\n');
    await write("a/iteration_000002/train_rollout_summaries.jsonl", '{"total_reward":1}\n{"total_reward":0}\n');
    await write("a/iteration_000010/train_rollout_summaries.jsonl", "");
    const folders = await runFolders([root]);
    const list = await folders.list();
    const a = list.find(({ name }) => name.endsWith("/a"))!;
    expect(list).toHaveLength(2);
    expect(a).toMatchObject({ rows: 2, metric: "train_mean_nll", sparkline: [2, 1.5], runIds: ["s-1:train:0"] });
    expect([a.config, a.model]).toEqual([{ model_name: "m", lora_rank: 8 }, "m"]);
    expect(a.rollouts).toEqual([
      "iteration_000002/train_rollout_summaries.jsonl",
      "iteration_000010/train_rollout_summaries.jsonl",
    ]);
    expect(list.find(({ name }) => name.endsWith("deep/b"))!.metric).toBe("env/all/reward/total");
    const read = (await folders.read(a.id, 1))!;
    expect(read.metrics).toEqual({ step: [1], train_mean_nll: [1.5] });
    expect((await folders.read(a.id, 99))!.metrics).toEqual({ step: [], train_mean_nll: [] });
    expect([a.data, list.find(({ name }) => name.endsWith("deep/b"))!.data]).toEqual([["train_data.jsonl"], []]);
    const data = await folders.rollouts(a.id, a.data[0]!, { offset: 0, limit: 5 });
    expect(data).toEqual({ rows: [{ tokens: [1, 2], weights: [0, 1] }], total: 1, log: [] });
    const page = await folders.rollouts(a.id, a.rollouts[0]!, { offset: 1, limit: 5 });
    expect(page).toEqual({ rows: [{ total_reward: 0 }], total: 2, log: [] });
  });

  test("have the scores and answers of their result.json or of their recipe's, and the sums of their spending", async () => {
    const answer = { question: "q", before: "a", after: "b", expected: "c" };
    await write("r/stage/metrics.jsonl", '{"step":0}\n');
    await write(
      "r/result.json",
      JSON.stringify({ metric: "share right", before: 0.2, after: 0.6, better: "higher", cost: 3 }),
    );
    await write("own/metrics.jsonl", '{"step":0}\n');
    await write("own/result.json", JSON.stringify({ answers: [answer, { question: 7 }, null], seconds: 5, cost: 0.5 }));
    await write(
      "own/spending.jsonl",
      '{"step":0,"train_tokens":5,"evaluate_tokens":2}\n{"train_tokens":-1,"sample_tokens":4}\n',
    );
    await write("bad/metrics.jsonl", '{"step":0}\n');
    await write(
      "bad/result.json",
      JSON.stringify({ metric: 1, before: "x", after: null, answers: "all", seconds: -1 }),
    );
    await write("bad/spending.jsonl", '{"train_tokens":"many"}\n');
    const folders = await runFolders([root]);
    const list = await folders.list();
    const read = async (end: string) => (await folders.read(list.find(({ name }) => name.endsWith(end))!.id, 0))!;
    const stage = await read("r/stage");
    expect(stage.info.score).toEqual({ metric: "share right", before: 0.2, after: 0.6, better: "higher" });
    expect([stage.spending, stage.result]).toEqual([undefined, undefined]); // the recipe's cost is not the stage's
    const own = await read("/own");
    expect([own.info.score, own.result]).toEqual([undefined, { answers: [answer], seconds: 5, cost: 0.5 }]);
    expect(own.spending).toEqual({ train: 5, evaluate: 2, sample: 4 });
    const bad = await read("/bad");
    expect([bad.info.score, bad.result?.answers ?? [], bad.result?.seconds]).toEqual([undefined, [], undefined]);
    expect(bad.spending).toEqual({ train: 0, evaluate: 0, sample: 0 });
  });

  test("answers of a result are truncated, and a result beyond the limit is not read", async () => {
    await write("a/metrics.jsonl", '{"step":0}\n');
    const answers = Array.from({ length: 30 }, () => ({ question: "q".repeat(30_000), before: "", after: "" }));
    await write("a/result.json", JSON.stringify({ answers }));
    const folders = await runFolders([root]);
    const { id } = (await folders.list())[0]!;
    const { result } = (await folders.read(id, 0))!;
    expect([result!.answers.length, result!.answers[0]!.question.length]).toEqual([20, 20_000]);
    await write("a/result.json", JSON.stringify({ answers, padding: "x".repeat(1_000_000) }));
    expect((await folders.read(id, 0))!.result).toBeUndefined();
  });

  test("only rollout files inside the folder can be read", async () => {
    await write("a/metrics.jsonl", '{"step":0}\n');
    await write("secret/rollouts.jsonl", '{"secret":1}\n');
    await symlink(join(root, "secret"), join(root, "a", "iteration_000001"));
    const folders = await runFolders([join(root, "a")]);
    const { id, rollouts } = (await folders.list())[0]!;
    expect(rollouts).toEqual([]);
    for (const file of [
      "../secret/rollouts.jsonl",
      "iteration_000001/rollouts.jsonl",
      "metrics.jsonl",
      "/etc/passwd",
    ]) {
      expect(await folders.rollouts(id, file, { offset: 0, limit: 5 })).toBeUndefined();
    }
    expect(await folders.read("nothing", 0)).toBeUndefined();
  });

  test("a path that is not a folder is named in the error", async () => {
    await expect(runFolders([join(root, "missing")])).rejects.toThrow(/missing is not a folder/);
  });
});
