// Every recipe, whole but for its steps, against the real server over an engine that computes nothing; and the files themselves.
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadRecipe, RunFolder, recipeNames, recipeText, runRecipe } from "@tinklet/cookbook";
import { loadTokenizer, ServiceClient, type Tokenizer } from "tinklet";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createServer, type TinkletServer } from "../../../packages/server/src/server.ts";
import { fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";

vi.setConfig({ testTimeout: 600_000 }); // a busy machine is no failure
const model = fileURLToPath(new URL("../../../packages/base-model", import.meta.url));
const baseModel = "tinklet/base";
const names = await recipeNames();

let server: TinkletServer;
let service: ServiceClient;
let tokenizer: Tokenizer;
let work: string;
beforeAll(async () => {
  const open = async () => fakeEngine({ vocabSize: 4096, contextLength: 1024 });
  server = await createServer({ models: [{ name: baseModel, open, tokenizerId: model }], log: "off" });
  const fetch = (url: string | URL | Request, init?: RequestInit) => server.fetch(new Request(url, init));
  service = new ServiceClient({ baseUrl: "http://localhost", apiKey: "tml-test", fetch, logLevel: "off" });
  tokenizer = await loadTokenizer(model);
  work = await mkdtemp(join(tmpdir(), "tinklet-recipes-"));
});
afterAll(async () => {
  await service?.close();
  await server?.close();
  await rm(work, { recursive: true, force: true });
});

it("a recipe that takes no data says so before it begins", async () => {
  const options = { service, baseModel, tokenizer, folder: join(work, "data"), data: "mine.jsonl" };
  await expect(runRecipe(await loadRecipe("math-rl"), options)).rejects.toThrow(/data: this recipe makes its own/);
  await expect(runRecipe(await loadRecipe("sft"), options)).rejects.toThrow(/mine\.jsonl: there is no such file/);
});

it("dpo trains on pairs from a file", async () => {
  const data = join(work, "pairs.jsonl");
  const message = (role: string, content: string) => [{ role, content }];
  const lines = Array.from({ length: 10 }, (_, at) => ({
    prompt: message("user", `Is ${at} even?`),
    chosen: message("assistant", "Yes or no?"),
    rejected: message("assistant", "What?"),
  }));
  await writeFile(data, lines.map((line) => JSON.stringify(line)).join("\n"));
  const options = { service, baseModel, tokenizer, folder: join(work, "pairs"), maxSteps: 1, data };
  expect(await runRecipe(await loadRecipe("dpo"), options)).toMatchObject({
    after: expect.any(Number),
    pairs: 2,
    answers: [{ question: expect.stringMatching(/^Is \d even\?$/) }, {}],
  });
});

it("a recipe that may cost nothing stops before its first step, and says so", async () => {
  const price = { prefill: 1, sample: 1, train: 1, asOf: "2026-01-01" };
  const options = { service, baseModel, tokenizer, folder: join(work, "cost"), maxSteps: 1 };
  const result = await runRecipe(await loadRecipe("sft"), { ...options, costLimit: { price, maxCost: 0 } });
  expect(result).toEqual({ stopped: expect.stringMatching(/more than the \$0 allowed/) });
});

it("there are twelve", () => {
  expect(names).toEqual([
    ...[
      "code-rl",
      "dpo",
      "eval",
      "guess-number",
      "math-rl",
      "on-policy-distillation",
      "prompt-distillation",
      "reward-model",
    ],
    ...["rlhf", "self-play", "sft", "tool-use"],
  ]);
});

describe.each(names)("%s", (name) => {
  it("is a page that says what it does, and imports public names only", async () => {
    const text = await recipeText(name);
    expect(text.split("\n").length).toBeLessThanOrEqual(121);
    expect(text).toMatch(/^\/\*\*/);
    const imported = [...text.matchAll(/from "([^"]+)"/g)].map(([, from]) => from);
    expect(imported.filter((from) => !["@tinklet/cookbook", "@tinklet/sdk"].includes(from ?? ""))).toEqual([]);
    const { about, metric } = await loadRecipe(name);
    expect([about.length, metric.length].every((length) => length > 10 && length < 120)).toBe(true);
  });

  it("runs through all of its stages, records them, and has nothing left to do the second time", async () => {
    const folder = join(work, name);
    const steps: string[] = [];
    const run = async () =>
      runRecipe(await loadRecipe(name), {
        ...{ service, baseModel, tokenizer, folder, maxSteps: 2, seed: 1 },
        onEvent: ({ stage, type, step }) => type === "step" && steps.push(`${stage} ${step}`),
      });
    const result = await run();
    expect(result).toMatchObject({ before: expect.any(Number), after: expect.any(Number) });
    expect(JSON.parse(await readFile(join(folder, "result.json"), "utf8"))).toEqual(JSON.parse(JSON.stringify(result)));
    const stages = [...new Set(steps.map((step) => step.split(" ")[0] as string))];
    expect(steps).toEqual(stages.flatMap((stage) => [`${stage} 0`, `${stage} 1`]));
    expect(stages.length).toBeGreaterThan(name === "eval" ? -1 : 0);
    for (const stage of stages) {
      expect((await RunFolder.at(join(folder, stage)).readCheckpoints()).at(-1)).toMatchObject({ final: true });
      expect(existsSync(join(folder, stage, "config.json"))).toBe(true);
    }
    const before = steps.length;
    await run();
    expect(steps.length).toBe(before);
  });
});

describe("runRecipe", () => {
  it("stops when it is told to, and goes on from there", async () => {
    const folder = join(work, "stopped");
    const recipe = await loadRecipe("math-rl");
    const stop = new AbortController();
    const options = { service, baseModel, tokenizer, folder, maxSteps: 3 };
    const onEvent = ({ type }: { readonly type: string }) => type === "step" && stop.abort();
    expect(await runRecipe(recipe, { ...options, signal: stop.signal, onEvent })).toEqual({ stopped: "interrupted" });
    expect(await runRecipe(recipe, options)).toMatchObject({ after: expect.any(Number) });
    expect((await RunFolder.at(join(folder, "rl")).readMetrics()).map(({ step }) => step)).toEqual([0, 1, 2]);
  });

  it("refuses what is no recipe, and names those there are", async () => {
    const options = { service, baseModel, tokenizer, folder: join(work, "none") };
    await expect(runRecipe({} as never, options)).rejects.toThrow("recipe: must be what defineRecipe makes");
    await expect(loadRecipe("math")).rejects.toMatchObject({ hint: expect.stringContaining("math-rl") });
    await expect(loadRecipe("./none.js")).rejects.toThrow("there is no file");
  });
});
