import { symlinkSync } from "node:fs";
import { appendFile, mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { BatchedDataset } from "../data/dataset.ts";
import { toExample } from "../data/examples.ts";
import { renderExample, type SupervisedDatum, toDatum } from "../data/render.ts";
import { bestName } from "../runs/recorded-steps.ts";
import { RunFolder } from "../runs/run-folder.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { type SupervisedEvent, type SupervisedOptions, type SupervisedResult, trainSupervised } from "./supervised.ts";

const words = ["bread", "table", "stone", "river", "cloud", "green", "light", "ocean", "plant", "smile", "tiger"];
const data = words.map((text) => {
  const example = toExample({ text }, { file: "d", line: 1 });
  return toDatum(renderExample(example, letterTokenizer())) as SupervisedDatum;
});
const dataset = new BatchedDataset(data.slice(0, 9), { batchSize: 2, seed: 3 });
const settings = { dataset, learningRate: 0.5, epochs: 4, evalEvery: 3, saveEvery: 4, testData: data.slice(9) };

const newFolder = async () => RunFolder.open(join(await mkdtemp(join(tmpdir(), "tinklet-run-")), "run"));
const read = (run: RunFolder, name: string) => readFile(join(run.path, name), "utf8");

async function finish(
  options: SupervisedOptions,
  onEvent?: (event: SupervisedEvent) => void,
): Promise<SupervisedResult> {
  const loop = trainSupervised(options);
  for (;;) {
    const { done, value } = await loop.next();
    if (done) return value;
    onEvent?.(value);
  }
}

/** Resumes as a new process would: from the files of the run alone. */
async function resume(service: BigramService, run: RunFolder, more: Partial<SupervisedOptions> = {}) {
  const last = await run.lastCheckpoint();
  return finish({
    ...settings,
    trainer: service.trainer(last?.state_path),
    run,
    resumeFrom: last,
    ...more,
  });
}

describe("trainSupervised", () => {
  it("learns, evaluates what is held out, and records the run in the official cookbook's files", async () => {
    const run = await newFolder();
    const result = await finish({ ...settings, trainer: new BigramService().trainer(), run });
    const rows = await run.readMetrics();
    expect(result).toMatchObject({ nextStep: 20, totalSteps: 20 });
    expect(rows.map(({ step }) => step)).toEqual(Array.from({ length: 21 }, (_, step) => step));
    expect(Object.keys(rows[0] as object)).toEqual([
      ...["step", "progress", "epoch", "learning_rate", "loss:sum"],
      ...["num_sequences", "num_tokens", "num_loss_tokens", "train_mean_nll", "test/nll"],
    ]);
    expect(rows[0]).toMatchObject({ epoch: 0, learning_rate: 0.5, num_sequences: 2, num_tokens: 10 });
    const seen = (await read(run, "train_data.jsonl")).trimEnd().split("\n");
    const first = dataset.batch(0, 0).map(({ modelInput, lossFnInputs: { target_tokens: targets, weights } }) => ({
      tokens: [modelInput.toInts()[0], ...Array.from(targets.values as ArrayLike<number | bigint>, Number)],
      weights: [0, ...Array.from(weights.values as ArrayLike<number | bigint>, Number)],
    }));
    expect(seen.map((line) => JSON.parse(line))).toEqual(first);
    expect(rows[19]?.["train_mean_nll"]).toBeLessThan((rows[0]?.["train_mean_nll"] as number) / 2);
    expect(result.testNll).toBeLessThan(rows[0]?.["test/nll"] as number);
    expect(await run.readCheckpoints()).toMatchObject([
      { name: "000004", batch: 4, epoch: 0, state_path: "tinker://run-0/weights/000004", elapsed_tokens: 40 },
      { name: "000008", batch: 3, epoch: 1 },
      { name: "000012", batch: 2, epoch: 2 },
      { name: "000016", batch: 1, epoch: 3 },
      { name: "final", batch: 0, epoch: 4, final: true, sampler_path: "tinker://run-0/sampler_weights/final" },
    ]);
  });

  it("keeps the weights with the lowest held-out loss, deletes those before them, and changes no metric", async () => {
    const straight = await newFolder();
    await finish({ ...settings, trainer: new BigramService().trainer(), run: straight });
    const [service, run, forgotten] = [new BigramService(), await newFolder(), [] as string[]];
    const forget = async (path: string) => void forgotten.push(path);
    const keeping = { ...settings, run, keepBest: true, forget };
    const stop = new AbortController();
    await finish({ ...keeping, trainer: service.trainer(), signal: stop.signal }, (event) => {
      if (event.type === "step" && event.step === 12) stop.abort();
    });
    const resumeFrom = await run.lastCheckpoint();
    const result = await finish({ ...keeping, trainer: service.trainer(resumeFrom?.state_path), resumeFrom });
    expect(await read(run, "metrics.jsonl")).toBe(await read(straight, "metrics.jsonl"));
    const losses = (await run.readMetrics()).flatMap((row) => row["test/nll"] ?? []);
    const kept = (await run.readCheckpoints()).filter(({ name }) => bestName.test(name));
    expect(kept.map((record) => record["test/nll"])).toEqual([Math.min(...losses)]);
    expect(result.testNll).toBe(losses.at(-1));
    expect(service.saved.has(kept[0]?.sampler_path as string)).toBe(true);
    expect(kept[0]?.sampler_path).toMatch(/^tinker:\/\/run-\d\/sampler_weights\/best$/);
    // Each was deleted before the next was saved; those of the interrupted run, too.
    const saves = service.calls.filter((call) => call === "saveWeightsForSampler best").length;
    expect(forgotten.length).toBe(saves - 1);
    expect(forgotten.length).toBeGreaterThan(1);
  });

  it("submits one step ahead, and saves exactly after the step that it names", async () => {
    const service = new BigramService();
    await finish({ ...settings, trainer: service.trainer(), run: await newFolder(), maxSteps: 5, evalEvery: 0 });
    expect(service.calls).toEqual([
      ...["open", "step", "step", "step", "step", "saveState 000004", "saveWeightsForSampler 000004", "step"],
      ...["saveState final", "saveWeightsForSampler final"],
    ]);
  });

  it.each([1, 2, 3, 7, 11, 19])(
    "interrupted after step %i and resumed, it is the uninterrupted run, line by line",
    async (at) => {
      const straight = await newFolder();
      await finish({ ...settings, trainer: new BigramService().trainer(), run: straight });

      const service = new BigramService();
      const run = await newFolder();
      const stop = new AbortController();
      const first = await finish({ ...settings, trainer: service.trainer(), run, signal: stop.signal }, (event) => {
        if (event.type === "step" && event.step === at - 1) stop.abort();
      });
      if (first.nextStep < 20) expect(first.stopped).toBe("interrupted");
      const second = await resume(service, run);
      expect(second.nextStep).toBe(20);
      expect(await read(run, "metrics.jsonl")).toBe(await read(straight, "metrics.jsonl"));
      expect((await run.lastCheckpoint())?.name).toBe("final");
    },
  );

  it("crashed anywhere, with a torn last line, it resumes from the last checkpoint to the same end", async () => {
    const straight = await newFolder();
    await finish({ ...settings, trainer: new BigramService().trainer(), run: straight });

    const service = new BigramService();
    const run = await newFolder();
    let steps = 0;
    service.onStep = () => {
      steps += 1;
      if (steps === 11) throw new Error("the machine went away");
    };
    await expect(finish({ ...settings, trainer: service.trainer(), run })).rejects.toThrow("went away");
    expect((await run.readMetrics()).length).toBeGreaterThan(8);
    await appendFile(join(run.path, "metrics.jsonl"), '{"step":9,"epo');
    service.onStep = undefined;
    await resume(service, run);
    expect(await read(run, "metrics.jsonl")).toBe(await read(straight, "metrics.jsonl"));
  });

  it("stops after a checkpoint when told to, and says why", async () => {
    const run = await newFolder();
    const result = await finish({
      ...settings,
      trainer: new BigramService().trainer(),
      run,
      stopWhen: ({ elapsedTokens }) => (elapsedTokens > 50 ? "over the budget" : undefined),
    });
    expect(result).toMatchObject({ stopped: "over the budget", nextStep: 7 });
    expect((await run.lastCheckpoint())?.name).toBe("000007");
  });

  it("has nothing to do when the run is complete", async () => {
    const service = new BigramService();
    const run = await newFolder();
    await finish({ ...settings, trainer: service.trainer(), run });
    const before = await read(run, "checkpoints.jsonl");
    const checkpoint = await run.lastCheckpoint();
    expect(await resume(service, run)).toEqual({ nextStep: 20, totalSteps: 20, checkpoint });
    expect(await read(run, "checkpoints.jsonl")).toBe(before);
  });

  it("says that the disk is full, and what to do", async () => {
    const run = await newFolder();
    const service = new BigramService();
    service.onStep = () => {
      service.onStep = undefined;
      symlinkSync("/dev/full", join(run.path, "metrics.jsonl"));
    };
    const failed = finish({ ...settings, trainer: service.trainer(), run });
    await expect(failed).rejects.toMatchObject({ code: "disk_full", hint: expect.stringContaining("resumes") });
  });
});
