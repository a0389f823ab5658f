// Early stopping: after so many evaluations without a better one, also across a resume; steps without an evaluation do not count.
import { expect, it } from "vitest";
import { EarlyStopping } from "./early-stopping.ts";

const rows = [3, 2, 2.5, 2, 2.1].map((loss) => ({ "test/nll": loss }));

it("stops after the patience, counted from the best evaluation", () => {
  const early = new EarlyStopping(2);
  const stopped = rows.map((row) => [early.observe(row), early.observe({ train_mean_nll: 9 })]);
  expect(stopped.map(([first]) => first === undefined)).toEqual([true, true, true, false, false]);
  expect(stopped[3]).toEqual(Array(2).fill("the test loss has not fallen in 2 evaluations"));
});

it("resumes with the recorded metrics, and a better evaluation starts the count again", () => {
  const early = new EarlyStopping(3, rows.slice(0, 4));
  expect(early.reason).toBeUndefined();
  expect(early.observe({ "test/nll": 1 })).toBeUndefined();
  expect(early.observe({ "test/nll": 1.5 })).toBeUndefined();
  expect(early.observe({ "test/nll": Number.NaN })).toBeUndefined();
  expect(early.observe({ "test/nll": 1.5 })).toMatch(/in 3 evaluations/);
});
