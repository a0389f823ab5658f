import { fileURLToPath } from "node:url";
import { createChat } from "@tinklet/models/chat";
import { loadTokenizer } from "@tinklet/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Env } from "../environments/env.ts";
import { codeEnv, programIn } from "./code-env.ts";
import { createSandbox, type GradedProgram } from "./sandbox.ts";

const sandbox = createSandbox({ threads: 1 });
afterAll(() => sandbox.close());
let tokenizer: Awaited<ReturnType<typeof loadTokenizer>>;
beforeAll(async () => {
  tokenizer = await loadTokenizer(fileURLToPath(new URL("../../../base-model", import.meta.url)));
});

const tests = [
  { call: "double", args: [4], expected: 8 },
  { call: "double", args: [2], expected: 4 },
];
async function step(answer: string, reward?: (graded: GradedProgram) => number) {
  const options = { chat: createChat(tokenizer), tokenizer, sandbox, question: "Write double(x).", tests };
  const group = codeEnv(reward === undefined ? options : { ...options, reward });
  const signal = new AbortController().signal;
  const [env] = (await group.makeEnvs({ size: 1, seed: 0, signal })) as [Env];
  await env.initialObservation(signal);
  const tokens = [...tokenizer.encode(answer, { addSpecialTokens: false }), ...tokenizer.eosTokenIds.slice(0, 1)];
  return env.step({ tokens, logprobs: tokens.map(() => 0), stopReason: "stop" }, signal);
}

describe("codeEnv", () => {
  it("rewards the program that passes all tests", async () => {
    expect(await step("const double = (x) => 2 * x;")).toMatchObject({
      reward: 1,
      done: true,
      metrics: { tests_passed: 1, limit_reached: 0 },
    });
  });

  it("gives no reward for some tests, unless the caller's reward does, and records the error", async () => {
    const half = "const double = (x) => x === 4 ? 8 : y;";
    expect(await step(half)).toMatchObject({
      reward: 0,
      metrics: { tests_passed: 0.5 },
      logs: { error: expect.stringContaining("y is not defined") },
    });
    expect(await step(half, ({ share }) => share)).toMatchObject({ reward: 0.5 });
  });

  it("gives no reward for a program that a limit ended", async () => {
    expect(await step("for (;;) {}")).toMatchObject({
      reward: 0,
      metrics: { limit_reached: 1 },
      logs: { error: "ticks" },
    });
  });

  it("rejects options and tests that are not usable", () => {
    const options = { chat: createChat(tokenizer), tokenizer, sandbox, question: "Write double(x).", tests };
    expect(() => codeEnv({ ...options, tests: [] })).toThrow("tests: must be a list of tests");
    expect(() => codeEnv({ ...options, sandbox: {} as never })).toThrow(
      "sandbox: must be what createSandbox() returns",
    );
    expect(() => codeEnv({ ...options, check: 1 } as never)).toThrow("check");
  });
});

it.each([
  ["const a = 1;", "const a = 1;"],
  ["Here:\n```js\nconst a = 1;\n```\nDone.", "const a = 1;"],
  ["```\nfirst\n```\nand\n```javascript\nsecond\n```", "second"],
  ["```js const a = 1;```", "js const a = 1;"],
  ["``` unfinished", "``` unfinished"],
  ["", ""],
])("the program in %j", (answer, program) => {
  expect(programIn(answer)).toBe(program);
});
