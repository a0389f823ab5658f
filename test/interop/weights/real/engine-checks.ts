/**
 * What an engine must be able to do with a real model: write as transformers writes, greedily, from the same weights, and learn
 * from text, measured on text that it was not shown.
 */

import { deepStrictEqual, ok } from "node:assert";
import type { Engine, TrainingDatum } from "../../../../packages/engine/src/types.ts";
import { createRandom } from "../../../fixtures/models/random.ts";

/** The greedy continuation of `prompt`, as ids and text. */
export async function writeGreedily(engine: Engine, prompt: readonly number[], maxTokens: number) {
  const result = await engine.sample({ prompt, params: { temperature: 0, maxTokens, seed: 1 } });
  const ids = [...(result.sequences[0]?.tokens ?? [])];
  return { ids, text: await engine.tokenizer.decode(ids) };
}

/** @param expected What transformers gives in float32 for the same file and prompt. */
export async function checkGreedy(
  engine: Engine,
  prompt: readonly number[],
  expected: readonly number[],
): Promise<string> {
  const { ids, text } = await writeGreedily(engine, prompt, expected.length);
  deepStrictEqual(ids, expected, `greedy text differs: ${text}`);
  return text;
}

const places = ["Harbour Hill", "Long Meadow", "Stone Bridge", "the Old Mill", "Fox Valley", "Cedar Point"];
const skies = ["clear", "cloudy", "grey and low", "bright", "heavy with rain"];
const winds = ["a light", "a strong", "a cold", "a gentle", "almost no"];
const directions = ["north", "south", "east", "west"];
const advice = [
  "Take a coat.",
  "Leave the umbrella at home.",
  "Bring boots.",
  "Keep the boats in.",
  "Hang out the washing.",
];

/** Made-up weather reports: one form, many contents, unlike anything that a small model says by itself. */
export function weatherReports(count: number, seed: number): string[] {
  const random = createRandom(seed);
  return Array.from({ length: count }, () => {
    const degrees = random.integer(30);
    return (
      `Weather for ${random.pick(places)}: the sky is ${random.pick(skies)}, with ${random.pick(winds)} wind ` +
      `from the ${random.pick(directions)} and ${degrees} degrees at noon. ${random.pick(advice)}`
    );
  });
}

/** Next-token prediction over a whole text. */
export async function datumOf(engine: Engine, text: string): Promise<TrainingDatum> {
  const ids = await engine.tokenizer.encode(text);
  return { tokens: ids.slice(0, -1), lossFnInputs: { target_tokens: { data: ids.slice(1) } } };
}

export interface LearningReport {
  /** Mean loss per token on held-out texts, before and after. */
  readonly before: number;
  readonly after: number;
  readonly steps: number;
  readonly tokens: number;
  readonly seconds: number;
}

/** Trains a LoRA adapter on weather reports and measures others. Throws when the held-out loss does not fall by a fifth. */
export async function checkLearning(engine: Engine, steps: number): Promise<LearningReport> {
  const train = await Promise.all(weatherReports(8 * steps, 1).map((text) => datumOf(engine, text)));
  const seen = new Set(weatherReports(8 * steps, 1));
  const unseen = weatherReports(40, 2)
    .filter((text) => !seen.has(text))
    .slice(0, 16);
  const heldOut = await Promise.all(unseen.map((text) => datumOf(engine, text)));
  const { adapterId } = await engine.createAdapter({ rank: 8, seed: 1 });
  const measure = async () => {
    const { metrics } = await engine.forward(adapterId, { data: heldOut, lossFn: "cross_entropy" });
    return (metrics["loss:sum"] as number) / heldOut.reduce((sum, datum) => sum + datum.tokens.length, 0);
  };
  const before = await measure();
  const start = performance.now();
  let tokens = 0;
  for (let step = 0; step < steps; step++) {
    const data = train.slice(step * 8, step * 8 + 8);
    for (const datum of data) tokens += datum.tokens.length;
    await engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" });
    await engine.optimStep(adapterId, { learningRate: 2e-3 });
  }
  const seconds = (performance.now() - start) / 1000;
  const after = await measure();
  await engine.deleteAdapter(adapterId);
  ok(after < 0.8 * before, `held-out loss went from ${before} to ${after}`);
  return { before, after, steps, tokens, seconds };
}
