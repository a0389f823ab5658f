// A process is identified by its id and its start, because systems give the id of an ended process to another one.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it } from "vitest";
import { hasEnded, startOf } from "./process-end.ts";

it("a process that runs has not ended, and one with the same id and another start has", () => {
  const start = startOf(process.pid);
  expect(hasEnded(process.pid, start)).toBe(false);
  if (process.platform === "linux") expect(start).toMatch(/^\d+$/);
  expect(hasEnded(process.pid, "1")).toBe(true);
});

it("a process that exited has ended", async () => {
  const child = spawn(process.execPath, ["-e", "process.stdin.resume()"]);
  await once(child, "spawn");
  const { pid = 0 } = child;
  const start = startOf(pid);
  expect(hasEnded(pid, start)).toBe(false);
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(hasEnded(pid, start)).toBe(true);
});
