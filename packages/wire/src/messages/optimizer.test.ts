/** Optimizers other than AdamW: what is sent, what is filled in, and what cannot be meant. */
import { describe, expect, it } from "vitest";
import { refusal } from "../../../sdk/src/testing/refusal.ts";
import { AdamOptimizerConfig, DimuonOptimizerConfig, DimuonParams, encodeOptimParams } from "./optimizer.ts";

describe("which optimizer a model gets", () => {
  it("is selected by its type, which is filled in", () => {
    expect(AdamOptimizerConfig.encode({})).toEqual({ type: "adamw" });
    expect(DimuonOptimizerConfig.encode({})).toEqual({ type: "dimuon", version: 1 });
    expect(DimuonOptimizerConfig.decode({ type: "dimuon", version: 1 })).toEqual({ type: "dimuon", version: 1 });
    expect(refusal(() => DimuonOptimizerConfig.encode({ version: 2 as never }))).toMatchObject({ field: "version" });
    expect(refusal(() => AdamOptimizerConfig.encode({ type: "sgd" as never }))).toMatchObject({ field: "type" });
  });
});

describe("settings of one step", () => {
  it("of Dimuon have its defaults", () => {
    expect(encodeOptimParams({ type: "dimuon", learningRate: 0 })).toEqual({
      type: "dimuon",
      learning_rate: 0,
      grad_clip_norm: 0,
      beta1: 0.9,
    });
    expect(encodeOptimParams({ type: "dimuon", learningRate: 0.1, gradClipNorm: 1, beta1: 0 })).toMatchObject({
      grad_clip_norm: 1,
      beta1: 0,
    });
  });

  it("of an unknown optimizer pass unchanged", () => {
    const params = { type: "lion", learning_rate: -1, betas: [0.9, 0.99] };
    expect(encodeOptimParams(params)).toEqual(params);
    expect(encodeOptimParams(params)).not.toBe(params);
  });

  it.each([
    [{ learningRate: -1e-9 }, "learningRate", "must not be negative, got -1e-9"],
    [{ learningRate: 1, gradClipNorm: -1 }, "gradClipNorm", "must not be negative, got -1"],
    [{ learningRate: 1, beta1: 1 }, "beta1", "must be at least 0 and below 1, got 1"],
    [{ learningRate: 1, beta1: -0.1 }, "beta1", "must be at least 0 and below 1, got -0.1"],
  ])("of Dimuon cannot be %j", (params, field, message) => {
    const error = refusal(() => DimuonParams.encode(params));
    expect([error.field, error.message]).toEqual([field, expect.stringContaining(message)]);
  });
});
