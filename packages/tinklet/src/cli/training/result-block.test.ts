import type { CheckpointRecord, MetricsRow } from "@tinklet/cookbook";
import { expect, it } from "vitest";
import { bestReference, heldOutLoss, nextCommands, resultFacts, shellWord } from "./result-block.ts";
import { defaultEpochs } from "./train-defaults.ts";

const checkpoint = (name: string, more: object = {}) =>
  ({ name, sampler_path: `tinker://r/sampler_weights/${name}`, ...more }) as CheckpointRecord;
const final = checkpoint("final", { final: true });
const rows = (...test: readonly (number | undefined)[]): MetricsRow[] => [
  ...test.slice(0, -1).map((loss, at) => ({
    ...{ step: at * 10, train_mean_nll: 4 - at, num_tokens: 1000 },
    ...(loss === undefined ? {} : { "test/nll": loss }),
  })),
  { step: (test.length - 1) * 10, ...(test.at(-1) === undefined ? {} : { "test/nll": test.at(-1) as number }) },
];
const finished = {
  folder: "runs/a",
  checkpoints: [checkpoint("000010"), checkpoint("000020"), checkpoint("best", { batch: 30 }), final],
  heldOut: 12,
  seconds: 65,
  isLocal: true,
};

it("compares the loss on held-out data before and after, and gives the next commands", () => {
  const done = { ...finished, rows: rows(3, 2, 1.5, 1) };
  expect(resultFacts({ ...done, cost: "$0.10" })).toEqual([
    "Result    loss per token 3.000 → 1.000, perplexity 20.1 → 2.72, on 12 held-out examples",
    "Best      loss per token 1.000 after 30 steps of 3: the last weights, runs/a",
    "Training  3 steps, 3,000 tokens, 1m 05s",
    "Cost      $0.10",
  ]);
  expect(nextCommands(done)).toEqual([
    "  npx tinklet chat --local --from runs/a",
    "  npx tinklet studio runs/a",
    "  npx tinklet export runs/a --local --format gguf --out model.gguf",
  ]);
  expect(nextCommands({ ...done, testFile: "my test.jsonl", folder: "runs/a b" })).toEqual([
    "  npx tinklet chat --local --from 'runs/a b'",
    "  npx tinklet eval 'my test.jsonl' --local --from 'runs/a b' --base",
    "  npx tinklet export 'runs/a b' --local --format gguf --out model.gguf",
  ]);
});

it("names the best weights when the loss rose after them, and the commands use them", () => {
  const checkpoints = [checkpoint("best", { batch: 10 }), final];
  const rose = { ...finished, checkpoints, rows: rows(3, 2, 2.5, 4.5) };
  expect(resultFacts(rose)[1]).toMatch(
    /^Best {6}loss per token 2\.000 after 10 steps of 3, kept as runs\/a:best\. It rose after that/,
  );
  expect(nextCommands(rose)[0]).toBe("  npx tinklet chat --local --from runs/a:best");
  expect(heldOutLoss(rose.rows, checkpoints)?.best.path).toBe("tinker://r/sampler_weights/best");
  const unsaved = { ...rose, checkpoints: [final] };
  expect(resultFacts(unsaved)[1]).toContain("no checkpoint was saved there");
  expect(bestReference("runs/a", heldOutLoss(unsaved.rows, unsaved.checkpoints))).toBe("runs/a");
  const named = { ...rose, checkpoints: [checkpoint("000010"), final] };
  expect(nextCommands(named)[0]).toBe("  npx tinklet chat --local --from runs/a:000010");
});

it("does not call noise overfitting", () => {
  const checkpoints = [checkpoint("best", { batch: 10 }), final];
  const told = (best: number, last: number) => resultFacts({ ...finished, checkpoints, rows: rows(6, best, last) })[1];
  for (const [best, last] of [
    [0.004, 0.005],
    [2, 2.03],
  ] as const)
    expect(told(best, last)).toMatch(/after 10 steps of 2, kept as runs\/a:best\. The last weights are as good\.$/);
  expect(told(0.004, 0.05)).toMatch(/It rose after that, which is overfitting/);
  expect(told(2, 2.2)).toMatch(/It rose after that, which is overfitting/);
});

it("says when training made it worse", () => {
  expect(resultFacts({ ...finished, rows: rows(1, 2, 3) })[1]).toMatch(
    /1\.000 before training\. Training made it worse: choose a lower learning rate/,
  );
});

it("without held-out data it gives the training loss and says what that lacks", () => {
  const [result] = resultFacts({ ...finished, isLocal: false, rows: rows(undefined, undefined, undefined) });
  expect(result).toMatch(/^Result {4}training loss per token 4\.000 → 3\.000; nothing was held out.*--test-share/);
});

it("quotes words for a shell where needed", () => {
  expect(["runs/a:best", "a b", "it's", "$(x)"].map(shellWord)).toEqual([
    "runs/a:best",
    "'a b'",
    "'it'\\''s'",
    "'$(x)'",
  ]);
});

it("small data gets at least 50 steps in up to 10 epochs, large data one epoch", () => {
  expect([1, 5, 7, 25, 49, 50, 1000].map(defaultEpochs)).toEqual([10, 10, 8, 2, 2, 1, 1]);
});
