/** A server whose engine has memory for one model only: models are swapped, with the same results. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine } from "@tinklet/engine";
import { omitUndefined } from "@tinklet/wire/options";
import { afterAll, beforeAll, expect, test } from "vitest";
import { writeTinyModel } from "../../engine/src/testing/tiny-model.ts";
import { baseModel, TestServer } from "./testing/test-server.ts";

const lora = { rank: 64, seed: 5 };
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tinklet-server-"));
  await writeTinyModel(folder);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const open = (memoryBudgetBytes?: number) =>
  openEngine(folder, {
    inThread: true,
    runtime: "interpreter",
    ...omitUndefined({ memoryBudgetBytes }),
  });
const source = (budget?: number) => ({ name: baseModel, open: () => open(budget) });

/** A budget with memory for `count` adapters: 16 bytes per parameter, in a quarter of the memory that the weights leave. */
const budgetFor = async (adapters: number): Promise<number> => {
  await using engine = await open();
  const { parameters } = await engine.createAdapter(lora);
  return engine.info.parameters * 4 + 4 * 16 * parameters * adapters;
};

/** Trains two models alternately. */
const train = async (server: TestServer): Promise<number[]> => {
  const models = [await server.model(undefined, lora), await server.model(undefined, lora)];
  const losses: number[] = [];
  for (let step = 0; step < 2; step++) {
    for (const model of models) {
      losses.push((await server.passResult(server.pass(model, 2 * step + 1, { tokens: [1, 5, 9, 2] }))).loss!);
      await server.result(server.optim(model, 2 * step + 2));
    }
  }
  return losses;
};

test("two models train as if there were memory for both", async () => {
  const roomy = await TestServer.open({ models: [source()] });
  const expected = await train(roomy);
  await roomy.close();
  const narrow = await TestServer.open({ models: [source(await budgetFor(1.5))] });
  expect(await train(narrow)).toEqual(expected);
  expect(narrow.logged.filter(({ event }) => event === "model.evicted").length).toBeGreaterThan(2);
  await narrow.close();
});

test("a model that does not fit after all evictions is refused with the memory that it needs", async () => {
  const server = await TestServer.open({ models: [source(await budgetFor(0.9))] });
  const request = { model_seq_id: 0, base_model: baseModel, lora_config: lora };
  const refused = await server.result(server.post("create_model", { ...request, session_id: await server.session() }));
  expect(refused).toMatchObject({ category: "user", error: /rank 64 needs .* MB.*raise the memory budget/ });
  await server.close();
});

test("an idle model is evicted to load saved weights for a sample", async () => {
  const server = await TestServer.open({ models: [source(await budgetFor(1.1))] });
  const model = await server.model(undefined, lora);
  const saved = await server.result(
    server.post("save_weights_for_sampler", { model_id: model, seq_id: 1, sampling_session_seq_id: 0 }),
  );
  const sampled = await server.sampleResult(
    server.post("asample", {
      sampling_session_id: saved.sampling_session_id,
      seq_id: 0,
      num_samples: 1,
      prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2, 3] }] },
      sampling_params: { max_tokens: 2, seed: 3 },
    }),
  );
  expect(sampled.sequences).toHaveLength(1);
  await server.close();
});
