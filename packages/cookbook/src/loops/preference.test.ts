// Learning from pairs: it learns, rejects invalid options, and resumes exactly after being killed anywhere.
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Datum, ModelInput } from "@tinklet/sdk";
import { afterAll, describe, expect, it } from "vitest";
import { BigramService } from "../testing/bigram-service.ts";
import {
  type PreferenceOptions,
  type PreferenceRunOptions,
  runPreference,
  scoreAnswers,
  trainPreference,
} from "./preference.ts";

const made: string[] = [];
const newFolder = async () => {
  made.push(await mkdtemp(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "tinklet-dpo-")));
  return join(made.at(-1) as string, "run");
};
afterAll(() => Promise.all(made.map((folder) => rm(folder, { recursive: true }))));

const datum = (first: number, answer: number) =>
  new Datum({
    modelInput: ModelInput.fromInts([first, 7]),
    lossFnInputs: { target_tokens: [7, answer], weights: [0, 1] },
  });
/** After 7 comes 1, rather than 2. */
const pairs = Array.from({ length: 10 }, (_, i) => ({ chosen: datum(i % 5, 1), rejected: datum(i % 5, 2) }));
const reference = new BigramService(8).reference();
const methods = { dpo: { kind: "dpo", reference, beta: 1 }, bradley_terry: { kind: "bradley_terry" } } as const;
const settings = { pairs, learningRate: 0.2, batchSize: 3, epochs: 2 };

async function finish<E, R>(loop: AsyncGenerator<E, R, void>, onEvent?: (event: E) => void): Promise<R> {
  for (;;) {
    const { done, value } = await loop.next();
    if (done) return value;
    onEvent?.(value);
  }
}

describe("trainPreference", () => {
  it.each(["dpo", "bradley_terry"] as const)("learns which answer is better by %s", async (kind) => {
    const rows: Record<string, number>[] = [];
    const service = new BigramService(8);
    const trainer = service.trainer();
    const result = await finish(trainPreference({ ...settings, trainer, method: methods[kind] }), (event) => {
      if (event.type === "step") rows.push(event.metrics);
    });
    expect(result).toEqual({ nextStep: 8, totalSteps: 8 });
    expect(rows.at(-1)?.[kind === "dpo" ? "dpo/accuracy" : "bt/accuracy"]).toBe(1);
    const [chosen, rejected] = await scoreAnswers(
      (await trainer.saveWeightsAndGetSamplingClient()) as typeof reference,
      [pairs[0]!.chosen, pairs[0]!.rejected],
    );
    expect(chosen! - rejected!).toBeGreaterThan(1);
  });

  it.each<[Partial<PreferenceOptions>, string]>([
    [{ pairs: [] }, "pairs"],
    [{ method: { kind: "ppo" } as never }, "method.kind"],
    [{ batchSize: 0 }, "batchSize"],
    [{ trainer: { ...new BigramService(8).trainer() } as never }, "forwardBackwardCustom"],
    [{ bta: 1 } as object, "bta"],
  ])("refuses %o", async (wrong, field) => {
    const options = { ...settings, trainer: new BigramService(8).trainer(), method: methods.dpo, ...wrong };
    await expect(finish(trainPreference(options))).rejects.toThrow(field);
  });

  it("says when the reference leaves out a token", async () => {
    const deaf = { computeLogprobs: async () => [null, null, null] };
    const options = {
      ...settings,
      trainer: new BigramService(8).trainer(),
      method: { kind: "dpo", reference: deaf } as const,
    };
    await expect(finish(trainPreference(options))).rejects.toThrow(
      "reference: gave no log-probability for token 2 of 3",
    );
  });
});

describe("runPreference", () => {
  const run = (service: BigramService, folder: string, options: Partial<PreferenceRunOptions> = {}) =>
    finish(
      runPreference({
        ...settings,
        service,
        folder,
        baseModel: "bigram",
        method: methods.dpo,
        saveEvery: 2,
        ...options,
      }),
    );

  it("killed anywhere, again and again, gives the same metrics as undisturbed", async () => {
    const straight = await newFolder();
    await run(new BigramService(8), straight);
    const want = await readFile(join(straight, "metrics.jsonl"), "utf8");
    expect(want.split("\n").length).toBe(9);
    for (let first = 1; first <= 8; first++) {
      const [service, folder] = [new BigramService(8), await newFolder()];
      let [steps, kills] = [0, 0];
      service.onStep = () => {
        steps += 1;
        if (steps === first || (kills > 0 && kills < 6 && steps % 3 === 0)) throw new Error("killed");
      };
      for (let done = false; !done; ) {
        done = await run(service, folder).then(
          () => true,
          () => false,
        );
        if (!done) kills += 1;
      }
      expect(kills).toBeGreaterThan(0);
      expect(await readFile(join(folder, "metrics.jsonl"), "utf8")).toBe(want);
    }
  });

  it("refuses to resume with other pairs or another method", async () => {
    const [service, folder] = [new BigramService(8), await newFolder()];
    await run(service, folder);
    await expect(run(service, folder, { pairs: pairs.slice(1) })).rejects.toThrow("data_digest");
    await expect(run(service, folder, { method: methods.bradley_terry })).rejects.toThrow("loss was");
  });
});
