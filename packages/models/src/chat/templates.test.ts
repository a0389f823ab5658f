/** Prompts equal those of transformers, token by token (recorded by test/interop/templates/compare.mjs), and rendered turns are parsed back. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ownFamilies } from "../../../../test/fixtures/chat/families.ts";
import { readBack } from "../../../../test/fixtures/chat/read-back.ts";
import { tokenizerFromFiles } from "../tokenizer/from-files.ts";
import { createChatTemplate } from "./chat-template.ts";
import { createChat } from "./create-chat.ts";

const recorded = JSON.parse(
  readFileSync(new URL("../../../../test/fixtures/chat/templates.json", import.meta.url), "utf8"),
) as Record<string, string[]>;
const digest = (ids: readonly number[]) => createHash("sha256").update(ids.join(" ")).digest("hex").slice(0, 12);
const families = ownFamilies();

test("at least 300 conversations of every kind are recorded", () => {
  const all = families.flatMap(({ conversations }) => conversations);
  expect(all.length).toBeGreaterThanOrEqual(300);
  const kinds = [
    all.filter(({ tools }) => tools !== undefined),
    all.filter(({ messages }) => messages[0]?.role === "system"),
    all.filter(({ messages }) => messages.filter(({ role }) => role === "user").length > 1),
    all.filter(({ messages }) => messages.some((message) => message["reasoning_content"] !== undefined)),
    all.filter(({ messages }) => messages.at(-1)?.["tool_calls"] !== undefined),
  ];
  for (const kind of kinds) expect(kind.length).toBeGreaterThan(10);
});

describe.each(families)("$name", ({ name, files, conversations }) => {
  const tokenizer = tokenizerFromFiles(files, name);
  const chat = createChat(tokenizer);

  test("prompts equal those of transformers", () => {
    const ids = conversations.map(({ messages, tools, addGenerationPrompt, variables }) =>
      digest(tokenizer.applyChatTemplate(messages, { addGenerationPrompt, variables, ...(tools && { tools }) })),
    );
    expect(ids).toEqual(recorded[name]);
  });

  test("prompts for a reply equal those of transformers, for each API", () => {
    const asked = conversations.flatMap(({ messages, tools, addGenerationPrompt, variables }, at) => {
      if (!addGenerationPrompt) return [];
      const rendered = chat.render(messages, { variables, ...(tools && { tools }) });
      return [[digest(chat.encode(rendered)), recorded[name]?.[at]]];
    });
    expect(asked.length).toBeGreaterThan(50);
    for (const [ours, theirs] of asked) expect(ours).toBe(theirs);
  });

  test("the last assistant turn parses to the same message", () => {
    const turns = conversations.flatMap((conversation) => readBack(chat, tokenizer, conversation) ?? []);
    expect(turns.length).toBeGreaterThan(25);
    for (const { written, read } of turns) expect(read).toEqual(written);
  });
});

test("indented JSON equals Python's: empty containers on one line, strings unchanged", () => {
  const source = "{{ value | tojson(indent=2) }}|{% for x in list %}{{ x | tojson(indent=2) }}{% endfor %}";
  const render = createChatTemplate({ templates: new Map([["default", source]]), specialTokens: {}, origin: "it" });
  const value = { a: {}, b: [], c: [{}], d: "{\n  }" };
  const written = '{\n  "a": {},\n  "b": [],\n  "c": [\n    {}\n  ],\n  "d": "{\\n  }"\n}';
  expect(render([], { variables: { value, list: [{}, []] } })).toBe(`${written}|{}[]`);
});
