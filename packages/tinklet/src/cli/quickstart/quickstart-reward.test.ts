import { expect, it } from "vitest";
import { inProportion } from "./quickstart-reward.ts";

const answers = (rewards: readonly number[]) => rewards.map((reward) => ({ answer: { reward } }));
const right = (shown: readonly { readonly answer: { readonly reward: number } }[]) =>
  shown.filter(({ answer }) => answer.reward === 1).length;

it.each([
  [0, 0],
  [0.14, 1],
  [0.5, 3],
  [0.53, 3],
  [0.9, 5],
  [1, 5],
])("for a share of %d, %i of the five shown answers are correct", (share, expected) => {
  const all = answers(Array.from({ length: 48 }, (_, at) => (at % 2 === 0 ? 1 : 0)));
  const shown = inProportion(all, share);
  expect([shown.length, right(shown)]).toEqual([5, expected]);
});

it("keeps the order, and shows fewer than five if there are not more", () => {
  expect(inProportion(answers([0, 1, 0]), 1)).toEqual(answers([0, 1, 0]));
});
