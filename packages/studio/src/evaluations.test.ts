import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EvaluationScore } from "@tinklet/wire";
import { beforeEach, describe, expect, test } from "vitest";
import { bestOf, isShown, itemOf } from "./page/evaluation-items.ts";
import { runFolders } from "./run-folders.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "studio-"));
  return () => rm(root, { recursive: true, force: true });
});

const valid = {
  ...{ format: "tinklet-eval/1", name: "bike", data: "bike.jsonl", kind: "data", seconds: 2, items: 2 },
  created_at: "2026-11-19T13:00:00.000Z",
  settings: { seed: 0 },
  scores: [{ name: "exact", better: "higher" }],
  models: [
    { label: "base", model: "m", path: null },
    { label: "bike", model: "m", path: "tinker://s-1:train:0/sampler_weights/final" },
  ],
  results: [{ exact: { mean: 0.5, low: 0.1, high: 0.9, items: 2, unparsed: 0 } }, { exact: { mean: 1 } }],
};
const put = async (folder: string, evaluation: unknown, answers = "") => {
  await mkdir(join(root, folder), { recursive: true });
  const text = typeof evaluation === "string" ? evaluation : JSON.stringify(evaluation);
  await writeFile(join(root, folder, "eval.json"), text);
  await writeFile(join(root, folder, "answers.jsonl"), answers);
};
const page = { offset: 0, limit: 10 };

describe("evaluations in folders", () => {
  test("are listed latest first, with pages of their answers", async () => {
    await put("evals/old", { ...valid, name: "old", created_at: "2026-01-01T00:00:00Z" });
    await put("evals/bike", valid, '{"item":0}\n7\n{"item":1}\n{"item":2}\n');
    const { evaluations } = await runFolders([root]);
    const list = await evaluations!.list();
    expect(list.map(({ name }) => name)).toEqual(["bike", "old"]);
    expect(list[0]).toMatchObject({ items: 2, results: [{ exact: { mean: 0.5, low: 0.1 } }, { exact: { mean: 1 } }] });
    const id = list[0]!.evaluationId;
    expect(await evaluations!.read(id, { offset: 1, limit: 1 })).toMatchObject({ rows: [{ item: 1 }], total: 3 });
    expect(await (await runFolders([root])).evaluations!.read(id, page)).toMatchObject({ total: 3 });
    expect(await evaluations!.read("0000000000000000", page)).toBeUndefined();
  });

  test("are complete in every list, also if several requests search at the same time", async () => {
    for (let number = 0; number < 10; number++) await put(`evals/${number}`, valid);
    const { evaluations } = await runFolders([root]);
    const lists: Promise<readonly unknown[]>[] = [];
    for (let number = 0; number < 40; number++) {
      lists.push(evaluations!.list());
      await new Promise((resolve) => setImmediate(resolve)); // the next one starts while these search
    }
    expect(new Set((await Promise.all(lists)).map(({ length }) => length))).toEqual(new Set([10]));
  });

  test("are no run folders, and a folder without a valid eval.json is skipped", async () => {
    await put("a", "{");
    await put("b", { ...valid, format: "tinklet-eval/2" });
    await put("c", `${JSON.stringify(valid)}${" ".repeat(300_000)}`);
    await mkdir(join(root, "d"));
    await put("secret", valid);
    await symlink(join(root, "secret", "eval.json"), join(root, "d", "eval.json"));
    const folders = await runFolders([root]);
    expect((await folders.evaluations!.list()).length).toBe(1);
    expect(await folders.list()).toEqual([]);
  });

  test("fields of the wrong type are left out, texts and lists are truncated", async () => {
    await put("a", {
      ...valid,
      ...{ name: "n".repeat(5000), data: 7, created_at: "never", seconds: "long", items: -1 },
      settings: {
        ...Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`s${at}`, at])),
        s0: "x".repeat(900),
        s1: [1],
        s2: null,
      },
      scores: [null, { name: 3, better: "sideways" }, ...Array.from({ length: 100 }, () => valid.scores[0])],
      models: "many",
      results: [{ exact: { mean: "high" }, other: { mean: 1, low: null, items: 0.5 } }, 7],
    });
    const [one] = await (await runFolders([root])).evaluations!.list();
    expect(one).toMatchObject({ data: "", createdAt: new Date(0), items: 0, models: [] });
    expect(Object.keys(one!.settings)).toHaveLength(50);
    expect(one!.settings).toMatchObject({ s0: "x".repeat(300), s1: "[1]", s2: null, s3: 3 });
    expect([one!.name.length, one!.scores.length, one!.seconds]).toEqual([300, 20, undefined]);
    expect(one!.scores[1]).toEqual({ name: "", better: "higher" });
    expect(one!.results).toEqual([{ other: { mean: 1 } }, {}]);
  });
});

describe("answers of an evaluation", () => {
  const higher: EvaluationScore = { name: "exact", better: "higher" };
  const item = (...scores: (number | null)[]) =>
    itemOf({ question: "q", answers: scores.map((exact) => ({ text: "a", scores: { exact } })) }, scores.length);

  test("have a place for each model; fields of the wrong type are skipped", () => {
    const found = itemOf({ item: "x", question: 7, answers: [{ text: 1, scores: { a: "x", b: null, c: 2 } }] }, 2);
    expect(found).toMatchObject({ question: "", expected: undefined, number: Number.NaN });
    expect(found.answers.map(({ text, scores }) => [text, ...scores])).toEqual([
      [undefined, ["b", null], ["c", 2]],
      [undefined],
    ]);
  });

  test("are selected by how they compare with the first model", () => {
    const items = [item(0, 0), item(0, 1), item(1, 0), item(null, 1)];
    const shown = (filter: Parameters<typeof isShown>[1], score = higher) =>
      items.map((one) => Number(isShown(one, filter, score))).join("");
    expect([shown("all"), shown("differ"), shown("better"), shown("worse")]).toEqual(["1111", "0111", "0100", "0010"]);
    expect(shown("better", { ...higher, better: "lower" })).toBe("0010");
    expect(isShown(item(0, 0), "differ", undefined)).toBe(true);
  });

  test("the best models of a score are marked where there are several", () => {
    expect([
      bestOf([0.5, 1, 1], higher),
      bestOf([0.5, 1], { ...higher, better: "lower" }),
      bestOf([1], higher),
    ]).toEqual([...[[1, 2], [0], []]]);
    expect(bestOf([undefined, 1], higher)).toEqual([]);
  });
});
