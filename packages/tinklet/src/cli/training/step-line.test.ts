import { describe, expect, it } from "vitest";
import { cachedShare, StepLine } from "./step-line.ts";

describe("the line of a step", () => {
  it("has the step, the figures and the cached share of the prompts", () => {
    const figures = { reward: "0.250", ...cachedShare({ sent: 284_000, cached: 213_000 }) };
    expect(new StepLine(20).text(3, 100, figures)).toMatch(
      /^step 4\/20 {2}reward 0\.250 {2}cached 75 % {2}.* tokens\/s/,
    );
  });

  it("has no cached share if nothing was cached or no prompts were counted", () => {
    expect(cachedShare({ sent: 10, cached: 0 })).toEqual({});
    expect(cachedShare(undefined)).toEqual({});
  });
});
