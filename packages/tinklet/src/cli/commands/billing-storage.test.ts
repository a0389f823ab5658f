// What `billing storage --explain` finds in a list of checkpoints.
import type { Checkpoint } from "@tinklet/wire";
import { expect, it } from "vitest";
import { storageOf } from "./billing-storage.ts";

const checkpoint = (path: string, day: number, more: Partial<Checkpoint> = {}): Checkpoint => ({
  checkpointId: path.split("/").slice(3).join("/"),
  checkpointType: path.includes("/sampler_weights/") ? "sampler" : "training",
  time: new Date(Date.UTC(2026, 6, day)),
  tinkerPath: path,
  sizeBytes: 1000,
  public: false,
  ...more,
});

it("sums the checkpoints of each run, the largest first", () => {
  const { runs } = storageOf([
    checkpoint("tinker://a/weights/1", 1),
    checkpoint("tinker://b/weights/1", 1, { sizeBytes: 9000, runName: "big" }),
    checkpoint("tinker://a/sampler_weights/1", 2, { sizeBytes: 500 }),
    checkpoint("tinker://c/weights/1", 1, { sizeBytes: undefined as never }),
  ]);
  expect(runs.map(({ run, name, bytes, checkpoints }) => [run, name, bytes, checkpoints.length])).toEqual([
    ["b", "big", 9000, 1],
    ["a", undefined, 1500, 2],
    ["c", undefined, 0, 1],
  ]);
});

it("offers a command for what is superseded, and never for the newest checkpoint of its kind", () => {
  const { freeing } = storageOf([
    ...[1, 2, 3].map((day) => checkpoint(`tinker://a/weights/${day}`, day)),
    ...[1, 2].map((day) => checkpoint(`tinker://a/sampler_weights/${day}`, day, { sizeBytes: 10 })),
    checkpoint("tinker://b/weights/1", 1),
  ]);
  expect(freeing).toEqual([
    {
      command: "npx tinklet checkpoint delete --run-id a --type weights --before 2026-07-03T00:00:00.000Z",
      what: "2 training checkpoints of a before the newest",
      bytes: 2000,
    },
    {
      command: "npx tinklet checkpoint delete --run-id a --type sampler_weights --before 2026-07-02T00:00:00.000Z",
      what: "1 sampler checkpoint of a before the newest",
      bytes: 10,
    },
  ]);
});

it("leaves out published checkpoints and those of the same moment as the newest", () => {
  const mixed = storageOf([
    checkpoint("tinker://a/weights/1", 1, { public: true }),
    checkpoint("tinker://a/weights/2", 2),
    checkpoint("tinker://a/weights/3", 3),
  ]);
  expect(mixed.freeing.map(({ command }) => command)).toEqual(["npx tinklet checkpoint delete tinker://a/weights/2"]);
  const same = storageOf([checkpoint("tinker://a/weights/1", 1), checkpoint("tinker://a/weights/2", 1)]);
  expect(same.freeing).toEqual([]);
});

it("leaves out the best weights and those of the end of a run, also if later ones exist", () => {
  const names = ["best", "best-000010", "final", "000020", "bestial"];
  const { freeing } = storageOf([
    ...names.map((name) => checkpoint(`tinker://a/sampler_weights/${name}`, 1)),
    checkpoint("tinker://a/sampler_weights/000040", 2),
  ]);
  expect(freeing.map(({ command }) => command)).toEqual([
    "npx tinklet checkpoint delete tinker://a/sampler_weights/000020 tinker://a/sampler_weights/bestial",
  ]);
});

it("quotes what a server sends, because a person pastes the command", () => {
  const hostile = "a; rm -rf ~ '$(id)'";
  const [command] = storageOf([1, 2].map((day) => checkpoint(`tinker://${hostile}/weights/${day}`, day))).freeing;
  expect(command?.command).toContain("--run-id 'a; rm -rf ~ '\\''$(id)'\\'''");
});
