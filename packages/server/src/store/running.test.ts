/** Marks of running requests: they outlive a process that crashes or is killed, and are read once. */
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createRunningMarks, marksFile } from "./running.ts";

function dataFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "tinklet-running-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A process's marks, and those that the last one left. */
function started(folder: string) {
  const marks = createRunningMarks(folder);
  const interrupted = marks.takeInterrupted();
  onTestFinished(() => marks.clear());
  return { marks, interrupted };
}

test("are those that were begun and not over, and are read once", () => {
  const folder = dataFolder();
  const { marks, interrupted } = started(folder);
  expect(interrupted).toEqual([]);
  for (const id of [5, 7, 9]) marks.begin(id);
  marks.begin(7);
  marks.end(5);
  marks.end(5);
  marks.begin(Number.MAX_SAFE_INTEGER);
  expect(new Set(started(folder).interrupted)).toEqual(new Set([7, 9, Number.MAX_SAFE_INTEGER]));
  expect(started(folder).interrupted).toEqual([]);
});

test("are none after an end in order, and none without a file", () => {
  const folder = dataFolder();
  const { marks } = started(folder);
  marks.begin(3);
  marks.clear();
  marks.begin(4); // too late: nothing is written any more
  expect(readdirSync(folder)).toEqual([]);
  expect(started(folder).interrupted).toEqual([]);
  const memory = createRunningMarks(undefined);
  memory.begin(1);
  expect(memory.takeInterrupted()).toEqual([]);
});

test("take as much room as requests run at once, however many ran", () => {
  const folder = dataFolder();
  const { marks } = started(folder);
  for (let id = 1; id <= 1000; id++) {
    marks.begin(id);
    marks.begin(id + 1_000_000);
    marks.end(id);
    marks.end(id + 1_000_000);
  }
  expect(readFileSync(join(folder, marksFile))).toHaveLength(16);
});

test("that are torn or not ours do not stop a start", () => {
  const folder = dataFolder();
  const { marks } = started(folder);
  marks.begin(12);
  appendFileSync(join(folder, marksFile), "abc");
  expect(started(folder).interrupted).toEqual([12]);
  writeFileSync(join(folder, marksFile), Buffer.alloc(1_000_000, 0xff));
  expect(started(folder).interrupted).toEqual([]);
  expect(createRunningMarks(join(folder, "no", "folder")).takeInterrupted()).toEqual([]);
});
