// What a recipe would take, counted before it is run: every recipe, beside what the same recipe then submits.
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  defineRecipe,
  estimateRecipe,
  loadRecipe,
  problemEnv,
  RunFolder,
  recipeNames,
  runRecipe,
  runReinforcement,
  spentBy,
} from "@tinklet/cookbook";
import { loadTokenizer, ServiceClient, type Tokenizer } from "tinklet";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createServer, type TinkletServer } from "../../../packages/server/src/server.ts";
import { fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";

vi.setConfig({ testTimeout: 600_000 }); // a busy machine is no failure
const model = fileURLToPath(new URL("../../../packages/base-model", import.meta.url));
const baseModel = "tinklet/base";
const names = await recipeNames();

let tokenizer: Tokenizer;
let work: string;
beforeAll(async () => {
  tokenizer = await loadTokenizer(model);
  work = await mkdtemp(join(tmpdir(), "tinklet-dry-test-"));
  await mkdir(join(work, "tmp"));
  vi.stubEnv("TMPDIR", join(work, "tmp")); // to see what is left there
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await rm(work, { recursive: true, force: true });
});

describe("estimateRecipe", () => {
  it.each(names)("%s: counts every stage without a server, and leaves nothing behind", async (name) => {
    const recipe = await loadRecipe(name);
    const { stages, outside, total } = await estimateRecipe(recipe, { baseModel, tokenizer, maxSteps: 3, seed: 1 });
    expect(stages.length).toBeGreaterThan(name === "eval" ? -1 : 0);
    for (const { steps, tokens } of stages) {
      expect([steps, tokens.train]).toEqual([3, expect.any(Number)]);
      expect(tokens.train).toBeGreaterThan(0);
    }
    const all = [...stages.map(({ tokens }) => tokens), outside];
    for (const kind of ["train", "evaluate", "sample"] as const)
      expect(total[kind]).toBe(all.reduce((sum, tokens) => sum + tokens[kind], 0));
    expect(await readdir(join(work, "tmp"))).toEqual([]);
  });

  it("is exact for examples, and the most that single answers take", async () => {
    let server: TinkletServer | undefined;
    let service: ServiceClient | undefined;
    try {
      const open = async () => fakeEngine({ vocabSize: 4096, contextLength: 1024 });
      server = await createServer({ models: [{ name: baseModel, open, tokenizerId: model }], log: "off" });
      const { fetch: answer } = server;
      const fetch = (url: string | URL | Request, init?: RequestInit) => answer(new Request(url, init));
      service = new ServiceClient({ baseUrl: "http://localhost", apiKey: "tml-test", fetch, logLevel: "off" });
      for (const [name, stage] of [["sft", "sft"] as const, ["math-rl", "rl"] as const]) {
        const recipe = await loadRecipe(name);
        const options = { baseModel, tokenizer, maxSteps: 2, seed: 3 };
        const { stages } = await estimateRecipe(recipe, options);
        await runRecipe(recipe, { ...options, service, folder: join(work, name) });
        const { train, evaluate, sample = 0 } = await spentBy(RunFolder.at(join(work, name, stage)));
        if (name === "sft") expect(stages[0]?.tokens).toEqual({ train, evaluate, sample: 0 });
        else {
          expect(stages[0]?.tokens.train).toBeGreaterThanOrEqual(train);
          expect(stages[0]?.tokens.sample).toBeGreaterThanOrEqual(sample);
        }
      }
    } finally {
      await service?.close();
      await server?.close();
    }
  });

  it("takes the steps of a large stage to be like its first ones", async () => {
    let answers = 0;
    const large = defineRecipe({
      about: "answers of 1,000 tokens",
      metric: "none",
      async run(task) {
        const check = () => {
          answers += 1;
          return 0;
        };
        const { chat } = task;
        const environments = [problemEnv({ chat, tokenizer, question: "Why?", maxTokens: 1000, check })];
        const loop = { ...task.stage("rl"), environments, groupsPerStep: 8, groupSize: 32, learningRate: 1e-4 };
        await task.follow("rl", runReinforcement({ ...loop, steps: task.steps(500) }));
        return { before: 0, after: 0 };
      },
    });
    const { stages, total } = await estimateRecipe(large, { baseModel, tokenizer });
    expect(answers).toBe(2 * 8 * 32); // of the first two steps
    expect([stages[0]?.steps, total.sample]).toEqual([500, 500 * 8 * 32 * 1000]);
    expect(total.train).toBeGreaterThan(total.sample);
  });

  it("refuses what is no recipe, and data that a recipe does not take", async () => {
    const options = { baseModel, tokenizer };
    await expect(estimateRecipe({} as never, options)).rejects.toThrow("recipe: must be what defineRecipe makes");
    const wrong = estimateRecipe(await loadRecipe("math-rl"), { ...options, data: "mine.jsonl" });
    await expect(wrong).rejects.toThrow("data: this recipe makes its own");
  });
});
