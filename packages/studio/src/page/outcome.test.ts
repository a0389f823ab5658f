import { describe, expect, test } from "vitest";
import { groupMetrics, notesOf, outcomeLines, outcomeOf, summaryOf, wordOf } from "./outcome.ts";
import type { RunCurves } from "./series.ts";

const curves = (y: Record<string, readonly (number | null)[]>, step?: readonly number[]): RunCurves => ({
  key: "a",
  label: "a",
  x: { step: step ?? Object.values(y)[0]!.map((_, i) => i) },
  y: new Map(Object.entries(y)),
});

describe("the outcome of a run", () => {
  test("is its reward, or else its loss, with the held-out values where there are some", () => {
    expect(outcomeOf(curves({ epoch: [0, 1], train_mean_nll: [2, 1], "test/nll": [null, 3] }))).toEqual({
      ...{ kind: "loss", isHigherBetter: false, train: "train_mean_nll", test: "test/nll" },
    });
    expect(outcomeOf(curves({ "loss:sum": [2, 1], "env/all/reward/total": [0, 1] }))).toMatchObject({
      ...{ kind: "reward", isHigherBetter: true, train: "env/all/reward/total", test: undefined },
    });
    expect(outcomeOf(curves({ loss: [2, 1], "test/nll": [null, null] }))).toMatchObject({
      train: "loss",
      test: undefined,
    });
    expect(outcomeOf(curves({ epoch: [0, 1] }))).toBeUndefined();
    expect(["test/nll", "env/all/reward/total", "other/thing"].map(wordOf)).toEqual([
      ...["held-out loss", "reward", "other/thing"],
    ]);
  });

  test("has a best step: the lowest loss or the highest reward, the later one of two", () => {
    expect(summaryOf([4, null, 2, 2, 3], false)).toEqual({ first: 4, last: 3, best: 2, bestAt: 3, count: 4 });
    expect(summaryOf([0, 1, 0.5], true)).toMatchObject({ best: 1, bestAt: 1 });
    expect(summaryOf([null, Number.NaN], true)).toBeUndefined();
    expect(summaryOf(undefined, true)).toBeUndefined();
  });

  test("is one line per run and per kind of data; held-out values are not smoothed", () => {
    const one = curves({ train_mean_nll: [2, 1], "test/nll": [3, null] });
    const lines = outcomeLines([one, { ...one, key: "b", label: "b" }], "loss", "tokens");
    expect(lines.map(({ label, colour, isSparse }) => [label, colour, isSparse])).toEqual([
      ["a, training", 0, false],
      ["a, held-out", 0, true],
      ["b, training", 1, false],
      ["b, held-out", 1, true],
    ]);
    expect(outcomeLines([one], "reward", "step")).toEqual([]);
  });
});

describe("the other metrics", () => {
  test("are grouped, counters last; a metric with one value in all runs is not drawn", () => {
    const found = groupMetrics(
      [
        curves({
          epoch: [0, 1],
          "env/x": [1, 2],
          lr: [1, 2],
          "optim/beta": [3, 3],
          "time/total": [1, 2],
          none: [null, null],
        }),
        curves({ "optim/beta": [3, null], "env/y": [5, 5] }),
      ],
      new Set(["lr"]),
    );
    expect(found.groups.map(({ name, metrics }) => [name, ...metrics])).toEqual([
      ["env", "env/x"],
      ["time", "time/total"],
      ["counts", "epoch"],
    ]);
    expect(found.constants).toEqual([
      { name: "optim/beta", value: 3 },
      { name: "env/y", value: 5 },
    ]);
  });
});

describe("the diagnosis", () => {
  const falling = Array.from({ length: 60 }, (_, i) => 3 * Math.exp(-i / 20));
  const evaluated = (value: (i: number) => number) => falling.map((_, i) => (i % 10 === 0 ? value(i) : null));

  test("marks the row at which a defect was found", () => {
    const rising = curves({
      train_mean_nll: falling,
      "test/nll": evaluated((i) => (i < 20 ? 3 - i / 20 : 2 + i / 20)),
    });
    expect(notesOf(rising, false)).toMatchObject([{ code: "overfitting", row: 30 }]);
    expect(notesOf(curves({ train_mean_nll: falling, "test/nll": evaluated((i) => 3 - i / 60) }), true)).toEqual([]);
  });

  test("reads the server's steps, which count from 1, and accuses only a run that has ended of a flat loss", () => {
    const flat = falling.map((_, i) => 2 + 0.01 * Math.sin(i));
    const steps = flat.map((_, i) => i + 1);
    expect(notesOf(curves({ loss: flat }, steps), false)).toEqual([]);
    expect(notesOf(curves({ loss: flat }, steps), true)).toMatchObject([{ code: "loss_not_falling" }]);
    const progress = flat.map((_, i) => (i + 1) / 60);
    expect(notesOf(curves({ train_mean_nll: flat, progress }), false)).toMatchObject([{ code: "loss_not_falling" }]);
  });

  test("skips repeated steps of a resumed run, and metrics that it does not know", () => {
    const repeated = [...falling.slice(0, 30), ...falling.slice(20)];
    const step = [...falling.slice(0, 30).keys(), ...falling.slice(20).map((_, i) => 20 + i)];
    expect(notesOf(curves({ train_mean_nll: repeated }, step), true)).toEqual([]);
    expect(notesOf(curves({ other: [1, 2] }), true)).toEqual([]);
  });
});
