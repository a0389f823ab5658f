import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { priceOf, readPrices, summarize, trainingCost } from "./cost.ts";

const file = async (text: string) => {
  const path = join(await mkdtemp(join(tmpdir(), "tinklet-prices-")), "prices.json");
  await writeFile(path, text);
  return path;
};

describe("summarize", () => {
  it("counts tokens, weights, what is cut and what is lost", () => {
    const rendered = [
      { tokens: [1, 2, 3, 4], weights: [0, 0, 1, 1] },
      { tokens: [1, 2, 3, 4, 5, 6], weights: [0, 0, 0, 1, 1, 1] },
      { tokens: [1, 2, 3, 4, 5, 6, 7], weights: [0, 0, 0, 0, 0, 0, 1] },
    ];
    expect(summarize(rendered, { maxLength: 4 })).toEqual({
      examples: 3,
      tokens: 6,
      lossTokens: 3,
      longest: 7,
      mean: 3,
      truncated: 2,
      dropped: 1,
    });
    expect(summarize(rendered).truncated).toBe(0);
  });
});

describe("prices", () => {
  it("are dollars per million tokens, dated, and can be overridden", async () => {
    const price = { prefill: 0.1, sample: 0.3, train: 2, asOf: "2026-11-01" };
    const table = await readPrices(await file(JSON.stringify({ "my/model": price })));
    expect(priceOf("my/model", table)).toEqual(price);
    expect(priceOf("Qwen/Qwen3-8B", table)?.asOf).toMatch(/^\d{4}-\d\d-\d\d$/);
    expect(priceOf("toString", table)).toBeUndefined();
    expect(trainingCost(price, { train: 3_000_000, evaluate: 1_000_000 })).toBeCloseTo(6.1);
  });

  it.each(["{", "3", '{"m":{"prefill":1,"sample":1}}', '{"m":null}', '{"m":{"prefill":1,"sample":1,"train":1}}'])(
    "refuses %s",
    async (text) => {
      await expect(readPrices(await file(text))).rejects.toMatchObject({ code: "invalid_data" });
    },
  );
});
