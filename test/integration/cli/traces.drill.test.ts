// docs/traces.md from the trace to the trained model, on the bundled model: answers are collected, corrected, exported and trained on, by the
// commands of the page, and the model then gives the corrected answers.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { resolveModels } from "../../../packages/server/src/models.ts";
import { serve } from "../../../packages/server/src/serve.ts";
import { chatExport, randomTraceId, said } from "../../../packages/server/src/testing/trace-exports.ts";
import { Executable } from "./executable.ts";

vi.setConfig({ testTimeout: 600_000 });

let tool: Executable;
let server: Awaited<ReturnType<typeof serve>>;
let env: Record<string, string>;
beforeAll(async () => {
  [tool, server] = await Promise.all([
    Executable.build({ server: true }),
    resolveModels([]).then((models) => serve({ models, port: 0, log: "off" })),
  ]);
  env = { TINKER_BASE_URL: server.url, TINKER_API_KEY: "tml-test" };
}, 120_000);
afterAll(async () => {
  await server?.close();
  tool?.remove();
});

const system = "Answer in one short sentence.";
const corrections = {
  "How long do refunds take?": "Refunds take 14 days.",
  "Can I change my address?": "Yes, under Account.",
  "Do you ship to Norway?": "No, only within the EU.",
  "Who pays for returns?": "We pay for returns.",
};
const questions = Object.keys(corrections) as (keyof typeof corrections)[];

async function ask(model: string, question: string): Promise<string> {
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer tml-test" },
    body: JSON.stringify({
      model,
      max_tokens: 24,
      temperature: 0,
      messages: [
        { role: "system", content: system },
        { role: "user", content: question },
      ],
    }),
  });
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
  return choices[0]!.message.content;
}

const run = async (...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await tool.run(args, { env });
  expect(code, stderr).toBe(0);
  return stdout;
};

it("answers are traced, corrected, exported and trained on, and the model gives the corrected ones", async () => {
  const before = await Promise.all(questions.map((question) => ask("tinklet/base", question)));
  const traces = questions.map((question, at) => ({
    traceId: randomTraceId(),
    model: "tinklet/base",
    prompt: [said("system", system), said("user", question)],
    answer: before[at]!,
  }));
  const sent = await fetch(`${server.url}/v1/traces`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(chatExport(traces)),
  });
  expect(await sent.json()).toEqual({});
  const listed = JSON.parse(await run("traces", "list", "--rating", "unrated", "--json")) as { traces: unknown[] };
  expect(listed.traces).toHaveLength(questions.length);
  for (const [at, { traceId }] of traces.entries())
    await run("traces", "rate", traceId, "--answer", corrections[questions[at]!]);
  await run("traces", "export", "--rating", "rated", "-o", "data.jsonl");
  expect(readFileSync(join(tool.work, "data.jsonl"), "utf8").trim().split("\n")).toHaveLength(questions.length);
  const training = [
    "--model",
    "tinklet/base",
    "--test-share",
    "0",
    "--batch-size",
    "4",
    "--epochs",
    "20",
    "--out",
    "runs/support",
  ];
  await run("train", "data.jsonl", ...training, "--learning-rate", "0.005");
  const { checkpoints } = JSON.parse(await run("checkpoint", "list", "--json")) as {
    checkpoints: { tinker_path: string; checkpoint_id: string }[];
  };
  const trained = checkpoints.find(({ checkpoint_id: id }) => id === "sampler_weights/final")!.tinker_path;
  const after = await Promise.all(questions.map((question) => ask(trained, question)));
  const right = (answers: readonly string[]) =>
    answers.filter((answer, at) => answer.trim() === corrections[questions[at]!]).length;
  expect(right(before)).toBe(0);
  expect(after.map((answer) => answer.trim())).toEqual(Object.values(corrections));
});
