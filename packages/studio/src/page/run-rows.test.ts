import { expect, test } from "vitest";
import {
  answersOf,
  firstAndLast,
  histogram,
  pairAnswers,
  rolloutOf,
  spansOf,
  textsOf,
  withAdvantages,
} from "./run-rows.ts";

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

test("answers are the first of each group, paired by their question", () => {
  const row = (group_idx: number, question: string, answer: string, more: object = {}) => ({
    ...{ group_idx, total_reward: 1, steps: [{ logs: { problem: question, response: answer }, ac_tokens: [1, 2] }] },
    ...more,
  });
  const first = answersOf([row(0, "a", "1"), row(0, "a", "2"), row(1, "b", "3"), {}]);
  expect(first.map(({ question, text, tokens }) => [question, text, tokens.length])).toEqual([
    ["a", "1", 2],
    ["b", "3", 2],
    ["", "", 0],
  ]);
  expect(answersOf([row(0, "logged", "x", { group_name: "named" })])[0]!.question).toBe("named");
  expect(answersOf([{ steps: [{ logs: { answer: "42", found: 1 } }] }])[0]!.text).toBe("answer: 42\nfound: 1");
  const last = answersOf([row(0, "b", "4"), row(1, "c", "5")]);
  const texts = (pairs: ReturnType<typeof pairAnswers>) => pairs.map(([one, other]) => [one.text, other.text]);
  expect(texts(pairAnswers(first, last))).toEqual([["3", "4"]]);
  expect(texts(pairAnswers(first, answersOf([row(0, "c", "5")])))).toEqual([["1", "5"]]);
});

test("before and after are the first and last files of one kind, evaluations first", () => {
  const train = (step: number) => `iteration_${step}/train_rollout_summaries.jsonl`;
  const evaluated = (step: number) => `iteration_${step}/eval_rollout_summaries.jsonl`;
  expect(firstAndLast([train(0), train(1), train(2)])).toEqual([train(0), train(2)]);
  expect(firstAndLast([evaluated(0), train(0), evaluated(5), train(5)])).toEqual([evaluated(0), evaluated(5)]);
  expect([firstAndLast([]), firstAndLast([train(0)]), firstAndLast([evaluated(0), train(0)])]).toEqual([
    ...[undefined, undefined, undefined],
  ]);
});
