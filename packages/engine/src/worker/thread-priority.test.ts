import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { getPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openEngine } from "../engine.ts";
import { writeTinyModel } from "../testing/tiny-model.ts";

/** Nice values of this process's threads; higher means lower priority. */
const niceOfThreads = (): number[] =>
  readdirSync("/proc/self/task").flatMap((thread) => {
    try {
      return [Number(readFileSync(`/proc/self/task/${thread}/stat`, "utf8").split(") ")[1]!.split(" ")[16])];
    } catch {
      return []; // the thread has ended in the meantime
    }
  });

test.runIf(process.platform === "linux")("the engine's threads give way to this one", async () => {
  const mine = getPriority(0);
  const lower = Math.min(mine + 10, 19);
  const before = niceOfThreads().filter((nice) => nice === lower).length;
  const folder = await mkdtemp(join(tmpdir(), "tinklet-priority-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeTinyModel(folder);
  const engine = await openEngine(folder, { threads: 2 });
  onTestFinished(() => engine.close());
  expect(getPriority(0)).toBe(mine);
  expect(niceOfThreads().filter((nice) => nice === lower).length).toBeGreaterThan(before);
});
