import { describe, expect, it } from "vitest";
import { cachedShare, StepLine } from "./step-line.ts";

describe("the line of a step", () => {
  it("has the step, the figures and the cached share of the prompts", () => {
    const figures = { reward: "0.250", ...cachedShare({ sent: 284_000, cached: 213_000 }) };
    expect(new StepLine(20, performance.now() - 1000).text(3, 100, figures)).toMatch(
      /^step 4\/20 {2}reward 0\.250 {2}cached 75 % {2}.* tokens\/s/,
    );
  });

  it("has a rate and a remaining time from the second step on, when they can be measured", () => {
    const line = new StepLine(3);
    expect(line.text(0, 100, { loss: "1.0" })).toBe("step 1/3  loss 1.0");
    expect(line.text(1, 100, { loss: "0.9" })).toMatch(/^step 2\/3 {2}loss 0\.9 {2}[\d,]+ tokens\/s {2}\d+ s left$/);
  });

  it("has no cached share if nothing was cached or no prompts were counted", () => {
    expect(cachedShare({ sent: 10, cached: 0 })).toEqual({});
    expect(cachedShare(undefined)).toEqual({});
  });
});
