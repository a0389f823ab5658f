import { expect, test } from "vitest";
import { histogram, rolloutOf, spansOf, textsOf, withAdvantages } from "./run-rows.ts";

test("a rollout has reward, group and turns, under either cookbook's field names; fields of the wrong type are skipped", () => {
  const turn = { ac_len: 3, reward: 1 };
  expect(rolloutOf({ total_reward: 1, group_idx: 2, tags: ["a", "b"], steps: [turn, null, "x"] })).toMatchObject({
    ...{ reward: 1, group: 2, tags: "a, b", steps: [turn] },
  });
  expect(rolloutOf({ reward: 0.5, group: 1 })).toMatchObject({ reward: 0.5, group: 1, tags: "", steps: [] });
  expect(rolloutOf({ total_reward: "much", steps: { 0: turn } })).toMatchObject({ reward: Number.NaN, steps: [] });
});

test("the advantage is the reward minus the mean of the rewards in the group", () => {
  const rows = withAdvantages(
    [
      { total_reward: 1, group_idx: 0 },
      { total_reward: 0, group_idx: 0 },
      { total_reward: null, group_idx: 0 },
      { total_reward: 5, group_idx: 1 },
      { total_reward: 3 },
    ].map(rolloutOf),
  );
  expect(rows.map(({ advantage }) => advantage)).toEqual([0.5, -0.5, 0, 0, 0]);
});

test("every finite reward is in exactly one bin, the highest in the last bin", () => {
  const bars = histogram([0, 0.5, 1, 1, Number.NaN]);
  expect(bars.map(({ count }) => count)).toEqual([1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2]);
  expect(histogram([2, 2]).map(({ count }) => count)).toEqual([2]);
  expect(histogram([Number.NaN])).toEqual([]);
});

test("reads spans of a step and texts of a log", () => {
  const span = { name: "train", duration: 2, wall_start: 1, wall_end: 3 };
  const early = { name: "sample", duration: 1, wall_start: 0, wall_end: 1 };
  const spans = [span, { ...span, wall_end: 0 }, { ...span, name: 7 }, 1, early, { ...early, wall_end: 2 }];
  expect(spansOf({ step: 0, spans })).toEqual([
    { name: "sample", start: 0, end: 2, count: 2 },
    { name: "train", start: 1, end: 3, count: 1 },
  ]);
  expect(textsOf({ a: "x", b: 1, c: [null] })).toEqual([
    ["a", "x"],
    ["b", "1"],
    ["c", "[null]"],
  ]);
  expect([textsOf([1]), textsOf("x"), textsOf(null), textsOf(undefined)]).toEqual([[], [], [], []]);
});
