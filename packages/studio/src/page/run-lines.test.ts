import { RunFolder, RunProgress } from "@tinklet/wire";
import { describe, expect, test } from "vitest";
import { linesOfRuns, sourceOf } from "./run-lines.ts";

const run = (id: string, more: Record<string, unknown> = {}): RunProgress =>
  RunProgress.decode({
    ...{
      run_id: id,
      name: `name-${id}`,
      session_id: "s",
      status: "done",
      base_model: "m",
      lora_rank: 8,
      tags: [],
      user_metadata: {},
    },
    ...{
      created_at: "2026-01-01T00:00:00Z",
      last_request_at: "2026-01-01T00:00:00Z",
      steps: 3,
      tokens: 9,
      sparkline: [],
    },
    ...more,
  });
const folder = (id: string, runIds: readonly string[], more: Record<string, unknown> = {}): RunFolder =>
  RunFolder.decode({
    ...{ folder_id: id, name: `runs/${id}`, run_ids: runIds, updated_at: "2026-01-02T00:00:00Z", rows: 5, last: {} },
    ...{ sparkline: [], config: {}, rollouts: [], ...more },
  });

describe("a run and its folder", () => {
  test("are one line, with the status of the latest run of the folder", () => {
    const lines = linesOfRuns(
      [run("a"), run("b", { status: "training", created_at: "2026-01-03T00:00:00Z" }), run("c")],
      [folder("f", ["a", "b"]), folder("g", [])],
    );
    expect(lines.map(({ key, name, status, steps }) => [key, name, status, steps])).toEqual([
      ["f", "name-b", "training", 5],
      ["g", "runs/g", "folder", 5],
      ["c", "name-c", "done", 3],
    ]);
  });

  test("a run that two folders name belongs to the latest", () => {
    const later = folder("copy", ["a"], { updated_at: "2026-01-05T00:00:00Z" });
    const lines = linesOfRuns([run("a")], [folder("f", ["a"]), later]);
    expect(lines.map(({ key, status }) => [key, status])).toEqual([
      ["copy", "done"],
      ["f", "folder"],
    ]);
    expect(sourceOf("a", [run("a")], [folder("f", ["a"]), later])).toMatchObject({ folderId: "copy", runId: "a" });
  });

  test("runs that resume each other have one name, and are one line", () => {
    const resumed = run("b", { name: "name-a", status: "training", created_at: "2026-01-03T00:00:00Z" });
    const lines = linesOfRuns([run("a"), resumed, run("c", { name: " " })], []);
    expect(lines.map(({ key, name, status }) => [key, name, status])).toEqual([
      ["b", "name-a", "training"],
      ["c", "c", "done"],
    ]);
    // The folder does not name the new run before its first checkpoint.
    const [joined, ...others] = linesOfRuns([run("a"), resumed], [folder("f", ["a"])]);
    expect([joined!.key, joined!.status, joined!.detail, others]).toEqual(["f", "training", "runs/f", []]);
    expect(sourceOf("f", [run("a"), resumed], [folder("f", ["a"])])).toMatchObject({ runId: "b" });
  });

  test("a folder without checkpoints belongs to the run that its loop gave its name", () => {
    const begun = run("a", { user_metadata: { name: "bike" }, last_request_at: "2026-01-02T00:00:00Z" });
    const bike = (more: Record<string, unknown> = {}) => folder("bike", [], { model: "m", ...more });
    const lines = linesOfRuns([begun, run("b")], [bike()]);
    expect(lines.map(({ key, name, tags }) => [key, name, tags])).toEqual([
      ["bike", "name-a", []],
      ["b", "name-b", []],
    ]);
    expect(sourceOf("a", [begun], [bike()])).toEqual({ key: "a", runId: "a", folderId: "bike" });
    for (const other of [
      { model: "n" },
      { updated_at: "2025-12-31T00:00:00Z" },
      { updated_at: "2026-01-03T00:00:00Z" },
    ])
      expect(linesOfRuns([begun], [bike(other)])).toHaveLength(2);
    expect(linesOfRuns([begun], [folder("boat", [], { model: "m" })])).toHaveLength(2);
  });

  test("a reason is shown only of a run that stands still", () => {
    const reasons = ["training", "waiting", "failed", "idle"].map(
      (status) => linesOfRuns([run("a", { status, reason: "why" })], [])[0]!.reason,
    );
    expect(reasons).toEqual([undefined, "why", "why", undefined]);
  });

  test("are found by the id of either", () => {
    const [runs, folders] = [[run("a"), run("b", { created_at: "2026-01-03T00:00:00Z" })], [folder("f", ["a", "b"])]];
    expect(sourceOf("f", runs, folders)).toEqual({ key: "f", runId: "b", folderId: "f" });
    expect(sourceOf("a", runs, folders)).toEqual({ key: "a", runId: "b", folderId: "f" });
    expect(sourceOf("x", runs, folders)).toEqual({ key: "x", runId: "x", folderId: undefined });
    expect(sourceOf("x", runs, folders, true)).toEqual({ key: "x", runId: undefined, folderId: "x" });
  });
});
