/** Sums the tokens of `spending.jsonl`, which has a line for each step, also for those that were repeated. */
import type { RunFileRow, RunFolderSpending } from "@tinklet/wire";
import type { RowStore } from "./growing-lines.ts";

const fields = { train: "train_tokens", evaluate: "evaluate_tokens", sample: "sample_tokens" } as const;

export class SpendingSums implements RowStore {
  /** `undefined` without lines. */
  sums: RunFolderSpending | undefined;

  add(row: RunFileRow): boolean {
    const before = this.sums ?? { train: 0, evaluate: 0, sample: 0 };
    const plus = (kind: keyof typeof fields): number => {
      const value = row[fields[kind]];
      const sum = before[kind] + (typeof value === "number" && value > 0 ? value : 0);
      return Number.isFinite(sum) ? sum : before[kind];
    };
    this.sums = { train: plus("train"), evaluate: plus("evaluate"), sample: plus("sample") };
    return true;
  }

  clear(): void {
    this.sums = undefined;
  }
}
