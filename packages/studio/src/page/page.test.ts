import type { StepColumns } from "@tinklet/wire";
import { describe, expect, test } from "vitest";
import { formatAge, formatBytes, formatDuration, formatNumber, timeMark, timeSteps } from "./format.ts";
import { alignLines, folderCurves, joinColumns, joinMetrics, linesOf, smooth, stepCurves } from "./series.ts";
import { oneLine, plainText, shownText } from "./text.ts";
import { colourOf, readVocabulary, weightColour } from "./tokens.ts";

describe("untrusted text", () => {
  test("escape sequences are removed; control and bidi characters become visible", () => {
    expect(plainText("\u001b[31mred\u001b[0m")).toBe("red");
    expect(plainText("\u001b]8;;http://x\u0007link\u001b]8;;\u0007")).toBe("link");
    expect(plainText("a\u202Eb\u0000c\u200b")).toBe("a‹U+202E›b·c‹U+200B›");
    expect(plainText("<script>")).toBe("<script>");
    expect(oneLine("a\n\n  b", 10)).toBe("a b");
  });

  test("long text is truncated without processing the rest", () => {
    const { text, isWhole } = shownText("x".repeat(10_000_000), 100);
    expect([text.length, isWhole]).toEqual([100, false]);
    expect(shownText("abc", 100)).toEqual({ text: "abc", isWhole: true });
  });
});

describe("curves", () => {
  test("smoothing a constant returns the constant from the first value on", () => {
    expect(smooth([2, 2, null, 2], 0.9).map((value) => value && Number(value.toFixed(9)))).toEqual([2, 2, null, 2]);
    expect(smooth([1, 3], 0.5)).toEqual([1, (0.5 * 0.5 * 1 + 0.5 * 3) / 0.75]);
    expect(smooth([1, null], 0)).toEqual([1, null]);
  });

  test("runs of different lengths share an axis", () => {
    const run = (key: string, steps: number[]) => ({
      key,
      label: key,
      x: { step: steps },
      y: new Map([["loss", steps.map((step) => step * 10)]]),
    });
    const aligned = (...runs: ReturnType<typeof run>[]) => alignLines(linesOf(runs, "loss", "step"), 0);
    const data = aligned(run("a", [1, 2, 3]), run("b", [2, 4]));
    expect([...data[0]]).toEqual([1, 2, 3, 4]);
    expect([...data[1]!].map((value) => value ?? null)).toEqual([10, 20, 30, null]);
    expect([...data[2]!].map((value) => value ?? null)).toEqual([null, 20, null, 40]);
    expect(aligned()).toEqual([[]]);
    expect(aligned(run("a", [1, 1, 2]), run("b", [1, 2]))).toEqual([
      [1, 2],
      [10, 20],
      [10, 20],
    ]);
  });

  test("a smoothed line has its raw values too; one of few values is not smoothed", () => {
    const line = { key: "a", label: "a", colour: 0, x: [0, 1], y: [1, 3] };
    const data = alignLines([line, { ...line, key: "b", isSparse: true }], 0.5);
    expect(data).toEqual([
      [0, 1],
      [1, (0.5 * 0.5 * 1 + 0.5 * 3) / 0.75],
      [1, 3],
      [1, 3],
    ]);
  });

  test("append new steps; at the limit every other step is dropped, except the last", () => {
    const columns = (from: number, count: number): StepColumns => {
      const values = Array.from({ length: count }, (_, i) => from + i);
      return {
        ...{ id: values, step: values, time: values, tokens: values, loss: values, gradientNorm: values },
        ...{ learningRate: values, queueMs: values, computeMs: values },
      };
    };
    const before = columns(1, 6);
    expect(joinColumns(before, columns(3, 2))).toBe(before);
    expect(joinColumns(before, columns(5, 4)).loss).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(joinColumns(before, columns(5, 4), 7).step).toEqual([2, 4, 6, 8]);
  });

  test("are created from steps and from files", () => {
    const one = (value: number) => [value];
    const steps: StepColumns = {
      ...{ id: one(1), step: one(1), time: one(5000), tokens: one(8), loss: one(2), gradientNorm: one(3) },
      ...{ learningRate: one(0.1), queueMs: one(10), computeMs: one(2000) },
    };
    const curves = stepCurves("a", "a", steps);
    expect(curves.y.get("time/compute seconds")).toEqual([2]);
    expect(curves.x.time).toEqual([0]);
    const columns = joinMetrics(
      { step: [0], num_tokens: [5] },
      1,
      { step: [null, 7], loss: [null, 1], late: [2, 3] },
      2,
    );
    const folder = folderCurves("b", "b", columns, 3);
    expect(Object.fromEntries(folder.y)).toEqual({
      num_tokens: [5, null, null],
      loss: [null, null, 1],
      late: [null, 2, 3],
    });
    expect(folder.x).toEqual({ step: [0, 1, 7], tokens: [5, 5, 5] });
  });
});

describe("tokens", () => {
  test("have the texts of the tokenizer: byte-level tokens, word markers and added tokens", () => {
    const read = (model: object, decoder?: object) =>
      readVocabulary(JSON.stringify({ model, decoder, added_tokens: [{ id: 9, content: "<end>" }] }));
    const bytes = read({ vocab: { "\u0120hi": 0, "\u00c3\u00a9": 1, "\u00c3": 2 } }, { type: "ByteLevel" });
    expect([0, 1, 2, 9, 7].map((id) => bytes.get(id))).toEqual([" hi", "é", "\ufffd", "<end>", undefined]);
    const words = read({ vocab: [["\u2581a", -1] as const, ["b", -2] as const] }, { type: "Metaspace" });
    expect([0, 1].map((id) => words.get(id))).toEqual([" a", "b"]);
  });

  test("are coloured by log-probability or by advantage", () => {
    const known = { logprob: -1, advantage: 1, kl: 0.5 };
    expect([-0.1, -2.5, -40, undefined].map((logprob) => colourOf("logprob", { ...known, logprob }))).toEqual([
      ...["sure-0", "sure-2", "sure-4", ""],
    ]);
    const advantages = [0.2, 0.5, -0.2, -3, 0, Number.NaN];
    expect(advantages.map((advantage) => colourOf("advantage", { ...known, advantage }))).toEqual([
      ...["gain-1", "gain-2", "cost-1", "cost-2", "", ""],
    ]);
    expect([0.01, 0.1, 0.5, -0.1, undefined, Number.NaN].map((kl) => colourOf("kl", { ...known, kl }))).toEqual([
      ...["", "cost-1", "cost-2", "gain-1", "", ""],
    ]);
    expect(colourOf("none", known)).toBe("");
  });

  test("in training data are coloured by their weight in the loss", () => {
    expect([0, 0.2, 1, -1, Number.NaN].map((weight) => weightColour(weight, 1))).toEqual([
      ...["", "gain-1", "gain-2", "cost-2", ""],
    ]);
  });
});

test("ticks of a time axis have distinct labels at any scale", () => {
  for (const step of timeSteps) {
    const marks = Array.from({ length: 40 }, (_, i) => timeMark((i - 10) * step));
    expect(new Set(marks).size, `every ${step} s: ${marks.join(", ")}`).toBe(marks.length);
  }
  expect([-600, 90, 5400, 36_000].map(timeMark)).toEqual(["−10 min", "1:30", "1:30 h", "10 h"]);
});

test("numbers have short labels", () => {
  expect([0, 0.00012345, 1.23456, 123.456, 1e9, null].map(formatNumber)).toEqual([
    ...["0", "1.23e-4", "1.235", "123.5", "1.00e+9", "–"],
  ]);
  expect([formatBytes(0), formatBytes(1500), formatBytes(2e9)]).toEqual(["0 B", "1.5 kB", "2.0 GB"]);
  expect([4000, 5600, 59_000, 61_000].map((then) => formatAge(0, then))).toEqual([
    ...["now", "6 s ago", "59 s ago", "1 min ago"],
  ]);
  expect([formatDuration(0.25), formatDuration(90), formatDuration(7200)]).toEqual(["250 ms", "1 min", "2 h"]);
});
