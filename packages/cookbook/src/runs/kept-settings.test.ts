// The optimizer's epsilon and the reduction of weights: as the official loops have them, recorded, and kept by runs that are resumed.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Datum, ModelInput } from "@tinklet/sdk";
import { afterAll, describe, expect, it } from "vitest";
import { type PrepareOptions, prepareExamples } from "../data/prepare.ts";
import { runPreference } from "../loops/preference.ts";
import { runReinforcement } from "../loops/reinforcement-run.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { runPolicyGradient, runSupervised, type SupervisedRunOptions } from "./open-run.ts";
import { RunFolder } from "./run-folder.ts";

const made: string[] = [];
const newFolder = async () => {
  made.push(await mkdtemp(join(tmpdir(), "tinklet-kept-")));
  return join(made.at(-1) as string, "run");
};
afterAll(() => Promise.all(made.map((folder) => rm(folder, { recursive: true }))));

async function finish<E>(loop: AsyncGenerator<E, unknown, void>, onEvent?: (event: E) => void): Promise<void> {
  for await (const event of { [Symbol.asyncIterator]: () => loop }) onEvent?.(event);
}
const examples = ["bread", "riverbank", "sea", "tigers and lions"].map((text) => ({ text }));
const prepared = (options: PrepareOptions = {}) =>
  prepareExamples(examples, letterTokenizer(), { testShare: 1, ...options });
const common = { baseModel: "bigram", learningRate: 0.3 };
const supervised = (
  options: Pick<SupervisedRunOptions, "folder" | "service"> & Partial<SupervisedRunOptions>,
  onEvent?: (event: { readonly type: string }) => void,
) => finish(runSupervised({ ...common, data: prepared(), batchSize: 2, epochs: 3, saveEvery: 2, ...options }), onEvent);

describe("Adam's epsilon", () => {
  const datum = (answer: number) =>
    new Datum({ modelInput: ModelInput.fromInts([7]), lossFnInputs: { target_tokens: [answer], weights: [1] } });
  const prompt = { prompt: [1] };
  const reward = ({ tokens }: { readonly tokens: readonly number[] }) => tokens.length + (tokens[0] ?? 0);
  const env = { initialObservation: () => ({ tokens: [1] }), step: reward };
  const loops = {
    supervised: (base) => runSupervised({ ...base, data: prepared() }),
    preference: (base) =>
      runPreference({ ...base, pairs: [{ chosen: datum(1), rejected: datum(2) }], method: { kind: "bradley_terry" } }),
    "policy gradient": (base) => runPolicyGradient({ ...base, problems: [prompt], reward, steps: 1 }),
    reinforcement: (base) =>
      runReinforcement({
        ...base,
        environments: [
          {
            name: "one",
            makeEnvs: ({ size }) =>
              Array.from({ length: size }, () => ({
                ...env,
                step: (action) => ({ reward: reward(action), done: true }),
              })),
          },
        ],
        steps: 1,
      }),
  } satisfies Record<
    string,
    (base: { service: BigramService; folder: string; baseModel: string; learningRate: number }) => object
  >;

  it.each(Object.keys(loops) as (keyof typeof loops)[])("is 1e-8 in %s, and recorded", async (name) => {
    const [service, folder] = [new BigramService(), await newFolder()];
    const seen = new Set<unknown>();
    service.onAdam = ({ eps }) => seen.add(eps);
    await finish(loops[name]({ ...common, service, folder }) as AsyncGenerator<object, unknown, void>);
    expect([...seen]).toEqual([1e-8]);
    expect(await RunFolder.at(folder).readConfig()).toMatchObject({ adam_eps: 1e-8 });
  });

  it("is the caller's where one is given, and may not change", async () => {
    const [service, folder] = [new BigramService(), await newFolder()];
    await supervised({ service, folder, adam: { eps: 1e-6 } });
    expect(await RunFolder.at(folder).readConfig()).toMatchObject({ adam_eps: 1e-6 });
    await expect(supervised({ service, folder, adam: { eps: 1e-7 } })).rejects.toThrow(
      "adam_eps was 0.000001 and is now 1e-7",
    );
  });
});

describe("the reduction of weights", () => {
  const sums = ({ train }: Pick<ReturnType<typeof prepared>, "train">) =>
    train.map(({ lossFnInputs }) => Array.from(lossFnInputs.weights.values, Number).reduce((sum, one) => sum + one, 0));

  it("is a mean per example unless told otherwise, and recorded", async () => {
    expect(sums(prepared()).map((sum) => sum.toFixed(5))).toEqual(["1.00000", "1.00000", "1.00000"]);
    expect(sums(prepared({ reduction: "sum" })).every((sum) => Number.isInteger(sum) && sum > 1)).toBe(true);
    expect(() => prepared({ reduction: "none" as "sum" })).toThrow("reduction: must be sum or mean, got none");
    for (const reduction of [undefined, "sum"] as const) {
      const folder = await newFolder();
      await supervised({ service: new BigramService(), folder, data: prepared({ reduction }) });
      expect(await RunFolder.at(folder).readConfig()).toMatchObject({ reduction: reduction ?? "mean" });
    }
  });

  it("stays that of the run when it is resumed; another one asked for is refused", async () => {
    const [service, folder] = [new BigramService(), await newFolder()];
    await supervised({ service, folder, data: prepared({ reduction: "sum" }) });
    await supervised({ service, folder });
    await expect(supervised({ service, folder, data: prepared({ reduction: "mean" }) })).rejects.toThrow(
      'reduction was "sum" and is now "mean"',
    );
  });

  it("of a run that did not record it is sum, with its epsilon of 1e-12, to the last byte", async () => {
    const old = { data: prepared({ reduction: "sum" }), adam: { eps: 1e-12 } };
    const straight = await newFolder();
    await supervised({ service: new BigramService(), folder: straight, ...old });

    const [service, folder, stop] = [new BigramService(), await newFolder(), new AbortController()];
    await supervised({ service, folder, ...old, signal: stop.signal }, (event) => {
      if (event.type === "checkpoint") stop.abort();
    });
    const file = join(folder, "config.json");
    const { reduction, adam_eps, adam, ...config } = JSON.parse(await readFile(file, "utf8"));
    await writeFile(file, JSON.stringify(config));
    await expect(supervised({ service, folder, data: prepared({ reduction: "mean" }) })).rejects.toThrow(
      "reduction was",
    );

    const seen = new Set<unknown>();
    service.onAdam = ({ eps }) => seen.add(eps);
    await supervised({ service, folder });
    expect([...seen]).toEqual([1e-12]);
    const metrics = (of: string) => readFile(join(of, "metrics.jsonl"), "utf8");
    expect(await metrics(folder)).toBe(await metrics(straight));
  });
});
