// What is known before the first step: examples that are cut or repeated, a test file that overlaps, a learning rate far from the usual one.
import { expect, it } from "vitest";
import { toExample } from "../data/examples.ts";
import { prepareExamples } from "../data/prepare.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { dataFindings, learningRateFinding } from "./data-findings.ts";

const tokenizer = letterTokenizer();
const rows = Array.from({ length: 10 }, (_, at) => ({ prompt: `${at}`, completion: "yes" }));
const codes = (...args: Parameters<typeof prepareExamples>) =>
  dataFindings(prepareExamples(...args)).map(({ code, message }) => [code, message]);

it("healthy data has no finding, nor has one repeated example of ten", () => {
  expect(codes(rows, tokenizer, { testShare: 0.2 })).toEqual([]);
  expect(codes([...rows.slice(0, 9), rows[0]!], tokenizer)).toEqual([]);
});

it("names examples that are cut, dropped or repeated, with their share", () => {
  const long = { prompt: "x".repeat(50), completion: "yes" };
  expect(codes([...rows, long], tokenizer, { maxLength: 20 })).toEqual([
    ["examples_cut", expect.stringMatching(/^1 of 11 examples \(9 %\) are cut.*; 1 have nothing left/)],
  ]);
  expect(codes([...rows, ...rows.slice(0, 4)], tokenizer)).toEqual([
    ["examples_repeated", expect.stringMatching(/^4 of 14 examples \(29 %\)/)],
  ]);
});

it("names test examples that are trained on; a test file replaces the held-out share", () => {
  const testExamples = [toExample(rows[3]), toExample({ prompt: "new", completion: "no" })];
  const data = prepareExamples(rows, tokenizer, { testShare: 0.5, testExamples });
  expect([data.train.length, data.test.length]).toEqual([10, 2]);
  expect(dataFindings(data).map(({ code }) => code)).toEqual(["test_leaked"]);
  expect(data.digest).not.toBe(prepareExamples(rows, tokenizer).digest);
});

it("names a learning rate far above or below the usual one", () => {
  expect([1e-3, 2e-3, 1e-4, 1e-2].map((rate) => learningRateFinding(rate, 2e-3))).toEqual(Array(4).fill(undefined));
  expect(learningRateFinding(0.05, 2e-3)?.message).toMatch(/0\.05 is 25 times the usual one for this model, 0\.002/);
  expect(learningRateFinding(1e-6, 2e-3)?.message).toMatch(/0\.000001 is 1\/2000 of the usual/);
  expect(learningRateFinding(1, undefined)).toBeUndefined();
});
