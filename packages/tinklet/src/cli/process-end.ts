/** Whether a process has ended, also if another one has its id by then. */
import { readFileSync } from "node:fs";
import { isProcessRunning } from "@tinklet/sdk/environment";

/** When a process started, as its system counts; `undefined` if the system does not say. With the id it identifies a process. */
export function startOf(pid: number): string | undefined {
  try {
    // The name of the program is in parentheses and may contain anything; the start is the 22nd field (proc(5)).
    const [, rest] = /^\d+ \(.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, "utf8")) ?? [];
    return rest?.split(" ")[19];
  } catch {
    return undefined; // ended, or not Linux
  }
}

/** Whether the process with this id and start has ended. @param start - of {@link startOf}, read while the process ran */
export const hasEnded = (pid: number, start: string | undefined): boolean =>
  !isProcessRunning(pid) || startOf(pid) !== start;
