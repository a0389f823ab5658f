/** The tests of a size matrix: for each runtime, its selected ways to sample and to train. */
import { describe, expect, it } from "vitest";
import type { Runtime } from "../runtime/runtime.ts";
import { isFull, problemsOf, type SampleCase, type SizeMatrix, type TrainCase } from "./size-matrix.ts";

/** A runtime and its cases. */
export interface SizePlan {
  readonly name: string;
  readonly runtime: Runtime;
  readonly samples: readonly SampleCase[];
  readonly passes: readonly TrainCase[];
}

/** Of one test; a full run takes hours. */
export const timeout: number = isFull ? 8 * 3600_000 : 120_000;

export function describeSizes(matrix: SizeMatrix, plans: readonly SizePlan[]): void {
  describe.each(plans)("on $name", ({ runtime, samples, passes }) => {
    it(`${samples.length} ways to sample`, { timeout }, async () => {
      const sampler = matrix.sampler(runtime);
      expect(await problemsOf(samples, (each) => matrix.sample(sampler, each))).toEqual([]);
      await sampler.dispose("done");
    });

    it(`${passes.length} ways to train and score`, { timeout }, async () => {
      const trainer = matrix.trainer(runtime);
      expect(await problemsOf(passes, (each) => matrix.train(trainer, each))).toEqual([]);
      await trainer.dispose();
    });
  });
}
