/** The agent example: its parts, and one short run of all of it on the bundled model. */
import { createTinklet, record } from "@tinklet/ai";
import { createLocalServer } from "@tinklet/server";
import { ServiceClient } from "tinklet";
import { afterAll, beforeAll, expect, test } from "vitest";
import { calculate, makeTasks, runAgent } from "./calculator.ts";
import { demonstration } from "./demonstrations.ts";
import { trainOn } from "./train.ts";

let server: Awaited<ReturnType<typeof createLocalServer>>;
let service: ServiceClient;
beforeAll(async () => {
  server = await createLocalServer({ engine: { inThread: true, threads: 1 } });
  const { url: baseUrl, fetch } = server;
  service = new ServiceClient({ apiKey: "tml-test", baseUrl, fetch, telemetry: false, logLevel: "off" });
}, 120_000);
afterAll(async () => {
  await service.close();
  await server.close();
});

test("tasks can be repeated, and the calculator answers them", () => {
  expect(makeTasks(5, 7)).toEqual(makeTasks(5, 7));
  expect(makeTasks(5, 7)).not.toEqual(makeTasks(5, 8));
  expect(calculate("47 * 86")).toBe("4042");
  expect(calculate("7-9")).toBe("-2");
  expect(["", "1 / 2", "process.exit()", "1 + 2 + 3"].map(calculate)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  for (const { question, expression, answer } of makeTasks(50, 1)) {
    expect(question).toContain(expression);
    expect(calculate(expression)).toBe(answer);
  }
});

test("a demonstration has the prompt that the agent sends, and learns the model's turns alone", async () => {
  const tokenizer = await service.getTokenizer("tinklet/base");
  const [task] = makeTasks(1, 3);
  const datum = demonstration(tokenizer, task!);
  const { transitions } = await record(runAgent(createTinklet({ service })("tinklet/base"), task!, { seed: 1 }));
  const prompt = transitions[0]!.observation.tokens;
  expect(datum.modelInput.toInts().slice(0, prompt.length)).toEqual(prompt);
  const { target_tokens, weights } = datum.lossFnInputs;
  const targets = Array.from(target_tokens.data, Number);
  const learned = tokenizer.decode(targets.filter((_, i) => Number(weights.data[i]) === 1));
  const call = `{"tool_calls":[{"name":"calculator","arguments":{"expression":"${task!.expression}"}}]}`;
  expect(learned).toBe(`${call}<|im_end|>${task!.answer}<|im_end|>`);
}, 120_000);

test("a run goes from warm-up to training", async () => {
  const lines: string[] = [];
  const sizes = { steps: 1, warmUpSteps: 1, demonstrations: 2, testTasks: 1, groups: 1, groupSize: 2 };
  const { before, after, rewards } = await trainOn(service, {
    seed: 1,
    ...sizes,
    log: (line) => void lines.push(line),
  });
  for (const share of [before, after, ...rewards]) expect([0, 0.5, 1]).toContain(share);
  expect(lines.at(-1)).toMatch(/^success after training/);
}, 300_000);
