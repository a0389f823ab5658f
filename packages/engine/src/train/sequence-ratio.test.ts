/** gspo on a small model: values against the formula, gradients against a cross entropy with the slopes as constant weights. */
import { describe, expect, it } from "vitest";
import type { Adapter } from "../adapter/adapter.ts";
import { createInterpreter } from "../runtime/interpreter.ts";
import { noisyAdapter } from "../testing/noisy-adapter.ts";
import { tinyModel } from "../testing/tiny-model.ts";
import type { LossRequest, TrainingDatum } from "../types.ts";
import { Trainer } from "./trainer.ts";

const model = tinyModel({ model_type: "qwen3" });
const trainer = new Trainer(model, createInterpreter({ float64: true }), { activationBytes: 1e9, contextLength: 64 });

const freshAdapter = () => noisyAdapter(model.config, { seed: 1, noise: 0.1 });

const sequences = [
  [3, 1, 4, 1, 5, 9, 2, 6],
  [3, 1, 4, 7, 7, 2],
  [8, 2, 8],
];
const plain = (weights?: readonly (readonly number[])[]): LossRequest => ({
  lossFn: "cross_entropy",
  data: sequences.map((tokens, i) => ({
    tokens: tokens.slice(0, -1),
    lossFnInputs: {
      target_tokens: { data: tokens.slice(1) },
      ...(weights === undefined ? {} : { weights: { data: weights[i]! } }),
    },
  })),
});
/** The first token of each sequence is the prompt's: not marked, no advantage, no log-prob. */
const advantagesOf = (tokens: readonly number[], i: number): number[] =>
  tokens.slice(1).map((_, at) => (at === 0 ? 0 : [0.7, -1.1, 0.4][i]! * (1 + at / 10)));

/** Data whose sampling log-probs differ from the model's by `shift`, with a small variation per token. */
const asked = async (shifts: readonly number[], config: LossRequest["lossFnConfig"] = {}) => {
  const { lossFnOutputs } = await trainer.forward(freshAdapter(), plain());
  const data = plain().data.map((datum, i): TrainingDatum => {
    const logprobs = [...lossFnOutputs[i]!.logprobs.data].map((l, at) =>
      at === 0 ? Number.NaN : l - shifts[i]! + (at % 2 ? 0.05 : -0.03),
    );
    return {
      ...datum,
      lossFnInputs: {
        ...datum.lossFnInputs,
        logprobs: { data: logprobs },
        advantages: { data: advantagesOf(sequences[i]!, i) },
        sequence_ratio_mask: { data: logprobs.map((_, at) => (at === 0 ? 0 : 1)) },
      },
    };
  });
  const ratios = data.map(({ lossFnInputs }, i) => {
    const gaps = [...lossFnOutputs[i]!.logprobs.data].map((l, at) => l - Number(lossFnInputs["logprobs"]!.data[at]));
    return Math.exp(gaps.slice(1).reduce((a, b) => a + b, 0) / (gaps.length - 1));
  });
  return { ratios, request: { lossFn: "gspo", data, lossFnConfig: config } satisfies LossRequest };
};

/** Slopes, log-probs and gradients are float32: each rounding is at most 2⁻²⁴ of the largest term. */
const expectEqual = (adapter: Adapter, twin: Adapter): void => {
  const largest = twin.gradient!.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  adapter.gradient!.forEach((value, i) => {
    expect(Math.abs(value - twin.gradient![i]!)).toBeLessThan(16 * 2 ** -24 * largest);
  });
};

describe("gspo", () => {
  it("gives every token the ratio of its sequence, and the gradient of its own log-prob", async () => {
    const { ratios, request } = await asked([0.05, -0.1, 0.02]);
    const adapter = freshAdapter();
    const result = await trainer.forwardBackward(adapter, request);
    const slopes = sequences.map((tokens, i) => advantagesOf(tokens, i).map((advantage) => ratios[i]! * advantage));
    slopes.forEach((own, i) => {
      own.forEach((slope, at) => {
        expect(result.lossFnOutputs[i]!.elementwise_loss.data[at]! + slope).toBeCloseTo(0, 6);
      });
    });
    expect(result.metrics["loss:sum"]).toBeCloseTo(-slopes.flat().reduce((a, b) => a + b, 0), 6);
    const twin = freshAdapter();
    await trainer.forwardBackward(twin, plain(slopes));
    expect(adapter.gradient!.some((value) => Math.abs(value) > 1e-3)).toBe(true);
    expectEqual(adapter, twin);
    const scored = await trainer.forward(freshAdapter(), request);
    expect(scored.metrics["loss:sum"]).toBeCloseTo(result.metrics["loss:sum"]!, 6);
  });

  it("drops whole sequences: above hi where the advantage is positive, below lo where it is negative", async () => {
    const { ratios, request } = await asked([0.5, -0.5, -0.5]); // ratios about 1.65, 0.61, 0.61
    const adapter = freshAdapter();
    const result = await trainer.forwardBackward(adapter, request);
    const clipped = [1.2, 0.8, ratios[2]!];
    sequences.forEach((tokens, i) => {
      advantagesOf(tokens, i).forEach((advantage, at) => {
        expect(result.lossFnOutputs[i]!.elementwise_loss.data[at]! + clipped[i]! * advantage).toBeCloseTo(0, 6);
      });
    });
    const twin = freshAdapter();
    const kept = sequences.map((tokens, i) => advantagesOf(tokens, i).map((a) => (i === 2 ? ratios[2]! * a : 0)));
    await trainer.forwardBackward(twin, plain(kept));
    expectEqual(adapter, twin);
    const wide = await asked([0.5, -0.5, -0.5], { clip_low_threshold: 0.1, clip_high_threshold: 10 });
    const unclipped = await trainer.forward(freshAdapter(), wide.request);
    expect(
      unclipped.lossFnOutputs[0]!.elementwise_loss.data[1]! + ratios[0]! * advantagesOf(sequences[0]!, 0)[1]!,
    ).toBeCloseTo(0, 6);
  });

  it("refuses a mask that marks nothing, a marked token without a log-prob, and none at all", async () => {
    const { request } = await asked([0, 0, 0]);
    const changed = (change: (inputs: Record<string, { data: readonly number[] }>) => void) => {
      const [first, ...others] = structuredClone(request.data) as TrainingDatum[];
      change(first!.lossFnInputs as unknown as Record<string, { data: readonly number[] }>);
      return trainer.forward(freshAdapter(), { ...request, data: [first!, ...others] });
    };
    const zeros = sequences[0]!.slice(1).map(() => 0);
    await expect(
      changed((inputs) => {
        inputs["sequence_ratio_mask"] = { data: zeros };
      }),
    ).rejects.toThrow(/data\[0\]\.lossFnInputs\.sequence_ratio_mask: marks no token/);
    await expect(
      changed((inputs) => {
        inputs["sequence_ratio_mask"] = { data: zeros.map(() => 1) };
      }),
    ).rejects.toThrow(/logprobs\[0\]: NaN is not a finite number/);
    await expect(
      changed((inputs) => {
        delete inputs["sequence_ratio_mask"];
      }),
    ).rejects.toThrow(/gspo needs it/);
  });
});
