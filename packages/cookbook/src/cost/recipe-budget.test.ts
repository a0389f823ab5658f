// A recipe's sum of money is for all of its stages together.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { RunFolder } from "../runs/run-folder.ts";
import { stageBudget } from "./recipe-budget.ts";

it("counts what other stages submitted, and the stage itself once", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tinklet-budget-"));
  try {
    for (const stage of ["sft", "rl"]) {
      await using run = await RunFolder.open(join(folder, stage));
      await run.appendSpending({ step: 0, train_tokens: 1e6, evaluate_tokens: 0, sample_tokens: 1e6 });
    }
    await mkdir(join(folder, "notes")); // the user's
    await writeFile(join(folder, "result.json"), "{}");
    const price = { prefill: 1, sample: 2, train: 3, asOf: "2026-01-01" };
    const planned = {
      step: 1,
      totalSteps: 2,
      tokens: { train: 1e6, evaluate: 0 },
      spent: { train: 1e6, evaluate: 0, sample: 1e6 },
    };
    // The other stage 5, this one 5, the step 3.
    expect(await stageBudget(folder, "rl", { price, maxCost: 13 })(planned)).toBeUndefined();
    expect(await stageBudget(folder, "rl", { price, maxCost: 12 })(planned)).toMatch(
      /has cost \$10\.0 .* \$13\.0, more than the \$12 allowed/,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});
