/** Draws on a device compared with `chooseToken`, with equal random numbers. */
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { createInterpreterDevice } from "../../runtime/interpreter-device.ts";
import { f32 } from "../../runtime/runtime.ts";
import { openTestDevice, runtimeOf, testKinds } from "../../testing/devices.ts";
import { argmax, type Choice, chooseToken } from "../choose-token.ts";
import { blockOf, drawGraph } from "./draw-graph.ts";
import { type DrawRow, drawRows, drawTables, isFiltered } from "./draw-inputs.ts";

const random = createRandom(3, "draw");
const choices: readonly Choice[] = [
  { topK: -1, topP: 1 },
  { topK: 1, topP: 1 },
  { topK: 5, topP: 1 },
  { topK: -1, topP: 0.9 },
  { topK: -1, topP: 0.01 },
  { topK: 20, topP: 0.5, minP: 0.1 },
  { topK: -1, topP: 1, minP: 0.3 },
  { topK: 1000, topP: 0.95 },
];
const temperatures = [0, 0.3, 1, 2];

const softmaxOf = (logits: Float32Array, coldness: number): Float32Array => {
  const largest = logits.reduce((most, logit) => Math.max(most, logit), -Infinity);
  const weights = logits.map((logit) => Math.exp((logit - largest) * coldness));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
};

/** Whether `chooseToken` may choose a token if the random number and all running sums have float32 rounding errors. */
const isAcceptable = (
  token: number,
  logits: Float32Array,
  { temperature, choice, random: value }: { temperature: number; choice: Choice; random: number },
): boolean => {
  if (temperature === 0) return token === argmax(logits);
  const probabilities = softmaxOf(logits, 1 / temperature);
  // Each sum errs by at most one rounding per term: the blocks, and the weights of one block.
  const error = 2 ** -24 * 4 * (blockOf(logits.length) + logits.length / blockOf(logits.length) + 8);
  const ends = [Math.max(0, value - error), Math.min(1, value + error)].map((x) =>
    chooseToken(probabilities, choice, x),
  );
  // A larger number selects a later token, in the order of ids or of descending probability.
  const placeOf = (id: number): number => (isFiltered(choice) ? -probabilities[id]! : id);
  return placeOf(ends[0]!) <= placeOf(token) && placeOf(token) <= placeOf(ends[1]!);
};

const opened: Awaited<ReturnType<typeof openTestDevice>>[] = [];
afterAll(() => {
  for (const device of opened) device.dispose();
});

describe.each(["interpreter", ...testKinds] as const)("on %s", (kind) => {
  it.each(kind === "webgpu" ? [300] : [37, 300, 2039])("a vocabulary of %i: as pick draws", async (vocabSize) => {
    const opening = async () => {
      const own = await openTestDevice(kind as "cpu");
      opened.push(own);
      return own;
    };
    const device = kind === "interpreter" ? createInterpreterDevice().device : runtimeOf(await opening()).device;
    const rows: (DrawRow & { readonly logits: Float32Array; readonly temperature: number })[] = [];
    for (const choice of choices) {
      for (const temperature of temperatures) {
        for (const value of [0, random(), random(), 1 - 2 ** -53]) {
          const logits = Float32Array.from({ length: vocabSize }, () => Math.fround(random() * 12 - 6));
          rows.push({
            logits,
            temperature,
            coldness: temperature > 0 ? 1 / temperature : 1,
            greedy: temperature === 0,
            choice,
            random: value,
          });
        }
      }
    }
    const program = await device.compile(drawGraph(vocabSize, true), new Map());
    const logits = new Float32Array(rows.length * vocabSize);
    for (const [i, row] of rows.entries()) logits.set(row.logits, i * vocabSize);
    const outputs = await program.run({
      logits: f32(logits, [rows.length, vocabSize]),
      ...drawTables(vocabSize),
      ...drawRows(rows, vocabSize, true),
    });
    const { token, complete, logit } = outputs as Record<string, { data: Float32Array }>;
    rows.forEach((row, i) => {
      const said = `${JSON.stringify(row.choice)} at ${row.temperature} with ${row.random}`;
      const isWhole = row.temperature === 0 || complete!.data[i]! > 0;
      if (vocabSize <= 1024) expect(isWhole, said).toBe(true);
      if (!isWhole) return;
      expect(isAcceptable(token!.data[i]!, row.logits, row), `${said}: ${token!.data[i]}`).toBe(true);
      expect(logit!.data[i]).toBe(row.logits[token!.data[i]!]);
    });
  });

  it("leaves to the host what is no number, and what filters leave beyond the candidates", async () => {
    const { device } = createInterpreterDevice();
    const vocabSize = 2039;
    const program = await device.compile(drawGraph(vocabSize, true), new Map());
    const flat: DrawRow = { coldness: 1, greedy: false, choice: { topK: -1, topP: 0.9 }, random: 0.5 };
    const rows: DrawRow[] = [
      flat,
      { ...flat, coldness: 1e30 },
      { ...flat, choice: { topK: 1500, topP: 1 } },
      { ...flat, choice: { topK: -1, topP: 1 } },
    ];
    const logits = new Float32Array(rows.length * vocabSize).fill(1);
    logits.fill(3e38, vocabSize, vocabSize + 2);
    const { complete } = await program.run({
      logits: f32(logits, [rows.length, vocabSize]),
      ...drawTables(vocabSize),
      ...drawRows(rows, vocabSize, true),
    });
    expect([...complete!.data].map((value) => (value as number) > 0)).toEqual([false, false, false, true]);
  });
});

it("blocks divide the vocabulary", () => {
  expect([37, 300, 49_152, 151_936].map(blockOf)).toEqual([37, 20, 256, 1187]);
});
