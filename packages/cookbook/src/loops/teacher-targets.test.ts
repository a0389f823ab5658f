// Off-policy distillation: the teacher's likeliest tokens as targets, several teachers, and a student that learns them.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Datum, ModelInput, SampleResponse } from "@tinklet/sdk";
import { describe, expect, it } from "vitest";
import type { Sampler } from "../clients.ts";
import type { SupervisedDatum } from "../data/render.ts";
import { runSupervised } from "../runs/open-run.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { lossTokens } from "./nll.ts";
import { teacherTargets } from "./teacher-targets.ts";

const vocabSize = 8;
const text = (tokens: readonly number[], weights = tokens.slice(1).map(() => 1)): SupervisedDatum =>
  new Datum({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: { target_tokens: tokens.slice(1), weights },
  });
const of = (train: readonly SupervisedDatum[], test: readonly SupervisedDatum[] = [], digest = "d") => ({
  train,
  test,
  digest,
});

/** A teacher that expects `next` after every token, twice as much as anything else. */
async function teacherOf(next: number): Promise<Sampler> {
  const trainer = new BigramService(vocabSize).trainer();
  const all = Array.from({ length: vocabSize }, (_, token) => text([token, next]));
  for (let i = 0; i < 30; i++) await trainer.step(all, "cross_entropy", { learningRate: 0.1 });
  return trainer.saveWeightsAndGetSamplingClient();
}

describe("teacherTargets", () => {
  it("puts the likeliest tokens with their shares in place of each target, with the weights of the data as a mask", async () => {
    const teacher = await teacherOf(5);
    const { train } = await teacherTargets([{ data: of([text([1, 2, 3, 4], [0, 1, 0.5])]), teacher }], { k: 3 });
    const { target_tokens: targets, weights } = (train[0] as SupervisedDatum).lossFnInputs;
    expect([targets.shape, weights.shape]).toEqual([
      [3, 3],
      [3, 3],
    ]);
    expect(Number(targets.values[3])).toBe(5);
    const rows = [0, 1, 2].map((row) => Array.from(weights.values.slice(row * 3, row * 3 + 3), Number));
    expect(rows.map((row) => row.reduce((sum, one) => sum + one, 0))).toEqual([
      0,
      expect.closeTo(1, 6),
      expect.closeTo(1, 6),
    ]);
    expect(rows[1]?.[0]).toBeGreaterThan(0.8);
    expect(lossTokens(train)).toBe(2);
    expect((train[0] as SupervisedDatum).modelInput.toInts()).toEqual([1, 2, 3]);
  });

  it("the student comes to the teachers' distributions, each on its own data, and not to the texts", async () => {
    const [one, other] = [await teacherOf(5), await teacherOf(6)];
    // Texts of 7s: the teachers expect something else. The first one's begin with 1, the other's with 2.
    const data = await teacherTargets(
      [
        { data: of([text([1, 7]), text([1, 7])]), teacher: one },
        { data: of([text([2, 7]), text([2, 7])], [text([2, 7])]), teacher: other },
      ],
      { k: vocabSize },
    );
    expect([data.train.length, data.test.length]).toEqual([4, 1]);
    const folder = await mkdtemp(join(tmpdir(), "tinklet-teacher-"));
    try {
      const service = new BigramService(vocabSize);
      const options = { service, folder, baseModel: "bigram", data, learningRate: 0.1, epochs: 60, batchSize: 4 };
      let path = "";
      let losses: number[] = [];
      for await (const event of runSupervised({ ...options, schedule: "constant" })) {
        if (event.type === "step") losses = [...losses, event.metrics["train_mean_nll"] as number];
        if (event.type === "done") path = event.checkpoint?.state_path as string;
      }
      expect(losses.at(-1)).toBeLessThan((losses[0] as number) / 2);
      const student = await service.trainer(path).saveWeightsAndGetSamplingClient();
      const likeliest = async (sampler: Sampler, token: number) => {
        const asked = { numSamples: 1, samplingParams: { maxTokens: 1 }, topkPromptLogprobs: 1 };
        const { topkPromptLogprobs } = await sampler.sample(ModelInput.fromInts([token, 0]), asked);
        return topkPromptLogprobs?.[1]?.[0] as readonly [number, number];
      };
      for (const [token, teacher] of [[1, one] as const, [2, other] as const]) {
        const [said, taught] = [await likeliest(student, token), await likeliest(teacher, token)];
        expect(said[0]).toBe(taught[0]);
        expect(said[1]).toBeCloseTo(taught[1], 1);
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("names a teacher that leaves out a place, and options that are wrong", async () => {
    const silent: Sampler = { sample: async () => new SampleResponse({ sequences: [] }) };
    const data = of([text([1, 2])]);
    await expect(teacherTargets([{ data, teacher: silent }])).rejects.toThrow("teacher: gave no likeliest tokens");
    await expect(teacherTargets([{ data, teacher: silent }], { k: 0 })).rejects.toThrow("k: must be an integer");
    await expect(teacherTargets([])).rejects.toThrow("parts: must not be empty");
    const digests = [of([], [], "a"), of([], [], "b")].map(async (one) => {
      return (await teacherTargets([{ data: one, teacher: silent }], { k: 2 })).digest;
    });
    expect(new Set(await Promise.all(digests)).size).toBe(2);
  });
});
