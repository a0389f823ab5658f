import { Checkpoint } from "@tinklet/wire";
import { expect, test } from "vitest";
import { groupCheckpoints } from "./checkpoint-groups.ts";

const saved = (path: string, minute: number, more: Record<string, unknown> = {}): Checkpoint =>
  Checkpoint.decode({
    checkpoint_id: path.split("/").slice(1).join("/"),
    checkpoint_type: path.includes("/sampler_weights/") ? "sampler" : "training",
    tinker_path: `tinker://${path}`,
    time: new Date(minute * 60_000).toISOString(),
    ...more,
  });

test("training state and weights of one name are one checkpoint; runs and checkpoints are sorted by time", () => {
  const groups = groupCheckpoints([
    saved("a/weights/000010", 1),
    saved("a/sampler_weights/000010", 2),
    saved("b/weights/x", 9),
    saved("a/sampler_weights/deep/name", 5),
  ]);
  expect(groups.map(({ runId, checkpoints }) => [runId, ...checkpoints.map(({ name }) => name)])).toEqual([
    ["b", "x"],
    ["a", "deep/name", "000010"],
  ]);
  const [, both] = groups[1]!.checkpoints;
  expect([both!.files.length, both!.training?.tinkerPath, both!.reference]).toEqual([
    ...[2, "tinker://a/weights/000010", "tinker://a/sampler_weights/000010"],
  ]);
  expect(groupCheckpoints([])).toEqual([]);
});

test("names replace ids: runs that resumed each other are one group, and a checkpoint has its short name", () => {
  const named = { run_name: "bike", reference: "bike@step-10" };
  const groups = groupCheckpoints([
    saved("a/weights/000010", 1, named),
    saved("a/sampler_weights/000010", 1, named),
    saved("b/weights/final", 5, { run_name: "bike", reference: "bike@final" }),
    saved("c/weights/000010", 3),
  ]);
  expect(
    groups.map(({ runId, runName, checkpoints }) => [runId, runName, checkpoints.map((one) => one.reference)]),
  ).toEqual([
    ["b", "bike", ["bike@final", "bike@step-10"]],
    ["c", undefined, ["tinker://c/weights/000010"]],
  ]);
  expect(groups[0]!.checkpoints[1]).toMatchObject({ name: "step-10", runId: "a" });
});
