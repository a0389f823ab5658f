import type { CheckpointRecord, MetricsRow } from "@tinklet/cookbook";
import { expect, it } from "vitest";
import { resultBlock } from "./result-block.ts";

const checkpoint = (name: string) => ({ name }) as CheckpointRecord;
const rows = (...test: readonly (number | undefined)[]): MetricsRow[] => [
  ...test.slice(0, -1).map((loss, at) => ({
    ...{ step: at * 10, train_mean_nll: 4 - at, num_tokens: 1000 },
    ...(loss === undefined ? {} : { "test/nll": loss }),
  })),
  { step: (test.length - 1) * 10, ...(test.at(-1) === undefined ? {} : { "test/nll": test.at(-1) as number }) },
];
const finished = {
  folder: "runs/a",
  checkpoints: [checkpoint("000010"), checkpoint("000020"), checkpoint("final")],
  heldOut: 12,
  seconds: 65,
  isLocal: true,
};

it("compares the loss on held-out data before and after, and gives the next commands", () => {
  expect(resultBlock({ ...finished, rows: rows(3, 2, 1.5, 1), cost: "$0.10" })).toEqual([
    "Result    loss per token 3.000 → 1.000, perplexity 20.1 → 2.72, on 12 held-out examples",
    "Training  3 steps, 3,000 tokens, 1m 05s",
    "Cost      $0.10",
    "",
    "  npx tinklet chat --local --from runs/a",
    "  npx tinklet studio runs/a",
    "  npx tinklet export runs/a --local --format gguf --out model.gguf",
  ]);
});

it("names the best step and its checkpoint when the loss rose after it", () => {
  const [, best, , , chat] = resultBlock({ ...finished, rows: rows(3, 2, 2.5, 4.5) });
  expect(best).toMatch(/^Best {6}loss per token 2\.000 at step 10 \(checkpoint 000010\)\. It rose after that/);
  expect(chat).toBe("  npx tinklet chat --local --from runs/a:000010");
  const unsaved = resultBlock({ ...finished, checkpoints: [checkpoint("final")], rows: rows(3, 2, 2.5, 4.5) });
  expect(unsaved[1]).toContain("no checkpoint was saved there");
  expect(unsaved).toContain("  npx tinklet chat --local --from runs/a");
});

it("without held-out data it gives the training loss and says what that lacks", () => {
  const [result] = resultBlock({ ...finished, isLocal: false, rows: rows(undefined, undefined, undefined) });
  expect(result).toMatch(/^Result {4}training loss per token 4\.000 → 3\.000; nothing was held out.*--test-share/);
});
