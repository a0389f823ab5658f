import ts from "typescript";
import { describe, expect, test } from "vitest";
import { codeKinds, codeOf } from "./chat-code.ts";
import { alternativesOf } from "./views/answer.tsx";
import type { AnswerRequest } from "./views/stream.ts";
import { rowRange } from "./virtual-rows.tsx";

const asked = (more: Partial<AnswerRequest> = {}): AnswerRequest => ({
  ...{ model: "m", mode: "chat", prompt: "hi", temperature: 0.5, maxTokens: 9, seed: 7 },
  messages: [{ role: "user", content: "hi" }],
  ...more,
});
const server = "http://127.0.0.1:8471";

describe("a chat as code", () => {
  const hostile = [`"; process.exit(1); "`, `\`$\{evil}\``, "</script>\u2028\n'\\", "\u202e*/"];

  test.each(codeKinds.map(([kind]) => kind).filter((kind) => kind !== "command"))(
    "%s: any text is a literal",
    (kind) => {
      for (const text of hostile)
        for (const mode of ["chat", "complete"] as const) {
          const messages = [
            { role: "system" as const, content: text },
            { role: "user" as const, content: text },
          ];
          const code = codeOf(kind, asked({ mode, prompt: text, model: `tinker://${text}`, messages }), server);
          const file = ts.createSourceFile("a.ts", code, ts.ScriptTarget.Latest, true);
          expect((file as unknown as { parseDiagnostics: unknown[] }).parseDiagnostics).toEqual([]);
          const literals: string[] = [];
          const visit = (node: ts.Node): void => {
            if (ts.isStringLiteral(node)) literals.push(node.text);
            ts.forEachChild(node, visit);
          };
          visit(file);
          expect(literals.filter((one) => one.includes(text))).toHaveLength(mode === "chat" ? 3 : 2);
        }
    },
  );

  test("a shell argument is quoted", () => {
    const messages = [{ role: "user" as const, content: "it's $(here)" }];
    expect(codeOf("command", asked({ messages, model: "tinker://a" }), server)).toBe(
      `npx tinklet sample 'it'\\''s $(here)' --chat --from tinker://a --temperature 0.5 --max-tokens 9 --seed 7 --base-url ${server}`,
    );
  });
});

test("the sampled token is among its alternatives, most likely first", () => {
  const others = [
    { text: "b", logprob: -0.1 },
    { text: "a", logprob: -3 },
  ];
  expect(alternativesOf({ text: "a", logprob: -3, others }).map(({ text, isSampled }) => [text, isSampled])).toEqual([
    ["b", false],
    ["a", true],
  ]);
});

test("of a long table only the rows near the window exist", () => {
  const window = 900;
  expect(rowRange({ top: 300, height: 60, window }, 1000)).toEqual({ from: 0, to: 18 });
  expect(rowRange({ top: -30_000, height: 60, window }, 1000)).toEqual({ from: 492, to: 523 });
  expect(rowRange({ top: -90_000, height: 60, window }, 1000)).toEqual({ from: 1000, to: 1000 });
  expect(rowRange({ top: 5000, height: 60, window }, 1000)).toEqual({ from: 0, to: 0 });
});
