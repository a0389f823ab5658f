// The short form of the recovery drill; `recovery.drill.test.ts` has 200 moments.
import { expect, test } from "vitest";
import { recoveryDrill } from "./drill.ts";

test("runs whose models are corrupted, evicted or lost with their session end with the weights of an undisturbed run", async () => {
  const moments = await recoveryDrill(24, 1);
  expect(moments.filter(({ problems }) => problems.length > 0)).toEqual([]);
  // The drill checks nothing if no model is lost, or if a loss leaves no trace.
  for (const kind of ["supervised", "reinforcement", "client"])
    expect(moments.filter((moment) => moment.kind === kind && moment.breaks > 0).length, kind).toBeGreaterThan(2);
});
