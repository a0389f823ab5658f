/**
 * The chat template with tools that `tools/pretrain` writes for the next bundled model: our models package renders it as transformers does
 * (recorded by `tools/pretrain/template_fixture.py`), recognises its tool calls, and three tools leave room in a context of 1,024 tokens.
 */
import { readFileSync } from "node:fs";
import { modelPath } from "@tinklet/base-model";
import { loadTokenizerFiles } from "@tinklet/models";
import { type Chat, type ChatMessage, type ChatTool, createChat, createChatTemplate } from "@tinklet/models/chat";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { beforeAll, describe, expect, test } from "vitest";

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
const source = read("tools/pretrain/chat_template_tools.jinja");
const recorded = JSON.parse(read("test/fixtures/base-model/chat-template.json")) as {
  messages: ChatMessage[];
  tools: ChatTool[];
  addGenerationPrompt: boolean;
  text: string;
}[];
const { tools, tasks } = JSON.parse(read("tools/pretrain/eval/tool-calls.json")) as {
  tools: Record<string, object>;
  tasks: { tools: string[]; ask: string }[];
};

test("renders every recorded conversation as transformers does", () => {
  const render = createChatTemplate({ templates: new Map([["default", source]]), specialTokens: {}, origin: "it" });
  expect(recorded.length).toBe(60);
  for (const { messages, tools: offered, addGenerationPrompt, text } of recorded)
    expect(render(messages, { addGenerationPrompt, ...(offered.length > 0 && { tools: offered }) })).toBe(text);
});

describe("with the bundled tokenizer", () => {
  let tokenizer: ReturnType<typeof tokenizerFromFiles>;
  let chat: Chat;
  beforeAll(async () => {
    const files = await loadTokenizerFiles(modelPath);
    const config = { ...(JSON.parse(files["tokenizer_config.json"]!) as object), chat_template: source };
    tokenizer = tokenizerFromFiles({ ...files, "tokenizer_config.json": JSON.stringify(config) }, "it");
    chat = createChat(tokenizer);
  });

  test("is recognised as a Hermes template that reads tools", () => {
    const { endTokenIds, ...traits } = chat.traits;
    expect(traits).toEqual({ format: "hermes", templateReadsTools: true });
    expect([...endTokenIds].sort()).toEqual([0, 2]);
  });

  test("a rendered call parses to the same call", () => {
    const question = { role: "user", content: "How warm is it?" };
    const offered = recorded.find((each) => each.tools.length === 3)!.tools;
    for (const { messages } of recorded.filter((each) => each.messages.at(-1)?.["tool_calls"] !== undefined)) {
      const last = messages.at(-1)!;
      const before = chat.render([question], { tools: offered });
      const whole = chat.render([question, last], { tools: offered, addGenerationPrompt: false }).text;
      const reply = chat.parse(tokenizer.encode(whole.slice(before.text.length), { addSpecialTokens: false }), before);
      const written = last["tool_calls"] as { function: { name: string; arguments: unknown } }[];
      expect(
        reply.toolCalls.map(({ name, arguments: text }) => ({ name, arguments: JSON.parse(text) as unknown })),
      ).toEqual(written.map((call) => ({ name: call.function.name, arguments: call.function.arguments })));
    }
  });

  test("a prompt with three tools of the evaluation takes less than half of the context", () => {
    const three = tasks.filter((task) => task.tools.length === 3);
    expect(three.length).toBeGreaterThan(20);
    for (const task of three) {
      const offered = task.tools.map((name) => ({ type: "function" as const, function: { name, ...tools[name] } }));
      const rendered = chat.render([{ role: "user", content: task.ask }], { tools: offered });
      expect(chat.encode(rendered).length).toBeLessThan(512);
    }
  });
});
