/** Marks of running requests outlive a process that crashes or is killed, and are read once. */
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

/** The marks of a new process, and the interrupted requests of the previous one. */
function started(folder: string) {
  const marks = createRunningMarks(folder);
  const interrupted = marks.takeInterrupted();
  onTestFinished(() => marks.clear());
  return { marks, interrupted };
}

test("contain the requests that have started and not ended, and are read once", () => {
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

test("are empty after an orderly end, and without a data folder", () => {
  const folder = dataFolder();
  const { marks } = started(folder);
  marks.begin(3);
  marks.clear();
  marks.begin(4); // after clear, nothing is written
  expect(readdirSync(folder)).toEqual([]);
  expect(started(folder).interrupted).toEqual([]);
  const memory = createRunningMarks(undefined);
  memory.begin(1);
  expect(memory.takeInterrupted()).toEqual([]);
});

test("reuse the slots of ended requests", () => {
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

test("with invalid content do not prevent the start", () => {
  const folder = dataFolder();
  const { marks } = started(folder);
  marks.begin(12);
  appendFileSync(join(folder, marksFile), "abc");
  expect(started(folder).interrupted).toEqual([12]);
  writeFileSync(join(folder, marksFile), Buffer.alloc(1_000_000, 0xff));
  expect(started(folder).interrupted).toEqual([]);
  expect(createRunningMarks(join(folder, "no", "folder")).takeInterrupted()).toEqual([]);
});
