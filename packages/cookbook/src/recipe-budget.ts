/** Keeps a recipe within a sum of money: all of its stages together, by what their folders say was submitted. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type BeforeStep, budget, type TokenCounts } from "./budget.ts";
import type { ModelPrice } from "./prices.ts";
import type { SpendingRow } from "./run-folder.ts";

/** A sum of money, and what things cost. */
export interface CostLimit {
  readonly price: ModelPrice;
  /** US dollars. */
  readonly maxCost: number;
}

/** For `beforeStep` of one stage: what the other stages have submitted counts as well. */
export function stageBudget(folder: string, stage: string, { price, maxCost }: CostLimit): BeforeStep {
  const ask = budget(price, maxCost);
  return (planned) => {
    const { train, evaluate, sample = 0 } = planned.spent;
    const others = spentInStages(folder, stage);
    const spent = { train: train + others.train, evaluate: evaluate + others.evaluate, sample: sample + others.sample };
    return ask({ ...planned, spent });
  };
}

function spentInStages(folder: string, except: string): Required<TokenCounts> {
  const stages = readdirSync(folder, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && entry.name !== except,
  );
  const rows = stages.flatMap(({ name }) => rowsOf(join(folder, name, "spending.jsonl")));
  return rows.reduce(
    (all, { train_tokens, evaluate_tokens, sample_tokens = 0 }) => ({
      train: all.train + train_tokens,
      evaluate: all.evaluate + evaluate_tokens,
      sample: all.sample + sample_tokens,
    }),
    { train: 0, evaluate: 0, sample: 0 },
  );
}

function rowsOf(path: string): SpendingRow[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return []; // a folder of something else
  }
  const lines = text.split("\n").slice(0, -1); // half a line was cut off by a crash, and not submitted
  return lines.filter((line) => line.trim() !== "").map((line) => JSON.parse(line) as SpendingRow);
}
