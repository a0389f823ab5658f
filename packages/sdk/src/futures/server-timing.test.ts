import { describe, expect, it } from "vitest";
import { parseServerTiming, togetherTiming } from "./server-timing.ts";

describe("parseServerTiming", () => {
  it.each([
    ["queue;dur=12.5, compute;dur=80", { queueMs: 12.5, computeMs: 80 }],
    ["compute;dur=0", { queueMs: undefined, computeMs: 0 }],
    ["queue;dur=3", { queueMs: 3, computeMs: undefined }],
    ['Queue ; desc="in line" ; DUR=4 ,edge;dur=9, COMPUTE;dur=5;desc=x', { queueMs: 4, computeMs: 5 }],
  ])("reads %s", (header, timing) => {
    expect(parseServerTiming(header)).toEqual(timing);
  });
  it.each([
    undefined,
    "",
    "cache;dur=3",
    "queue",
    "queue;dur=",
    "queue;dur=soon",
    "queue;dur=-1",
    "queue;dur=12x",
    "queue;mydur=1",
    "dur=1;queue",
  ])("finds nothing in %s", (header) => {
    expect(parseServerTiming(header)).toBeUndefined();
  });
});

describe("togetherTiming", () => {
  it("waits for the first and computes all", () => {
    const chunk = { queueMs: 5, computeMs: 10 };
    expect(togetherTiming([{ queueMs: 7, computeMs: 20 }, chunk, { queueMs: undefined, computeMs: 1 }])).toEqual({
      queueMs: 5,
      computeMs: 31,
    });
  });
  it("knows nothing from a server that tells nothing", () => {
    expect(togetherTiming([])).toEqual({ queueMs: undefined, computeMs: undefined });
    expect(togetherTiming([{ queueMs: undefined, computeMs: undefined }])).toEqual({
      queueMs: undefined,
      computeMs: undefined,
    });
  });
});
