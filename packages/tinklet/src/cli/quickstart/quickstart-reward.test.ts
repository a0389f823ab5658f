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
])("of five sums shown, the share %d of all is %i right ones", (share, expected) => {
  const all = answers(Array.from({ length: 48 }, (_, at) => (at % 2 === 0 ? 1 : 0)));
  const shown = inProportion(all, share);
  expect([shown.length, right(shown)]).toEqual([5, expected]);
});

it("shows what there is, in the order in which it came", () => {
  expect(inProportion(answers([0, 1, 0]), 1)).toEqual(answers([0, 1, 0]));
});
