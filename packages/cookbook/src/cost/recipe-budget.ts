/** Keeps a recipe within a sum of money: all of its stages together, by what their folders say was submitted. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { RunFolder } from "../runs/run-folder.ts";
import { type BeforeStep, budget, spentBy, sumOf, type TokenCounts } from "./budget.ts";
import type { ModelPrice } from "./prices.ts";

/** A sum of money, and what things cost. */
export interface CostLimit {
  readonly price: ModelPrice;
  /** US dollars. */
  readonly maxCost: number;
}

/** For `beforeStep` of one stage: what the other stages have submitted by the time that it begins counts as well. */
export function stageBudget(folder: string, stage: string, { price, maxCost }: CostLimit): BeforeStep {
  const ask = budget(price, maxCost);
  let others: Promise<TokenCounts> | undefined;
  return async (planned) => {
    others ??= spentInStages(folder, stage); // once: stages run one after the other
    return ask({ ...planned, spent: sumOf([planned.spent, await others]) });
  };
}

async function spentInStages(folder: string, except: string): Promise<TokenCounts> {
  const entries = await readdir(folder, { withFileTypes: true });
  const stages = entries.filter((entry) => entry.isDirectory() && entry.name !== except);
  return sumOf(await Promise.all(stages.map(({ name }) => spentBy(RunFolder.at(join(folder, name))))));
}
