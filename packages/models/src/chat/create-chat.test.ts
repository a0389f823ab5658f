/** Renders and parses conversations for each model family; fuzzes the parsers with replies split at arbitrary points. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { familyFiles, type TestFamily, testFamilies } from "../testing/chat-templates.ts";
import { tinyTokenizer } from "../testing/tiny-tokenizer.ts";
import { tokenizerFromFiles } from "../tokenizer/from-files.ts";
import type { Chat } from "./create-chat.ts";
import { createChat, replyFormats } from "./create-chat.ts";
import type { ReplyFormat } from "./reply-format.ts";
import { createReplyParser } from "./reply-parser.ts";
import { createReplyReader, replyOf } from "./reply-reader.ts";
import type { ChatMessage, ChatTool, Reply, ReplyEvent } from "./types.ts";

const weather: ChatTool = {
  type: "function",
  function: {
    name: "get_weather",
    description: "How it is outside.",
    parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } },
  },
};
const tokenizers = {
  ...(Object.fromEntries(
    testFamilies.map((family) => [family, tokenizerFromFiles(familyFiles(family), family)]),
  ) as Record<TestFamily, ReturnType<typeof tokenizerFromFiles>>),
  plain: tokenizerFromFiles(tinyTokenizer, "plain"),
};
type Family = keyof typeof tokenizers;
const families = Object.keys(tokenizers) as Family[];
const formatOf: Record<Family, string> = { qwen: "hermes", llama3: "llama3", mistral: "mistral", plain: "json" };

const question: ChatMessage = { role: "user", content: "How warm is it in Zürich? 🌡️" };
const call = (callArguments: unknown, id = "call_1") => ({
  id,
  type: "function",
  function: { name: "get_weather", arguments: callArguments },
});
const parseText = (chat: Chat, family: Family, text: string, tools: readonly ChatTool[] = [weather]): Reply => {
  const rendered = { text: "", tools, startsInReasoning: false };
  return chat.parse(tokenizers[family].encode(text, { addSpecialTokens: false }), rendered);
};

test.each(families)("%s: the family is detected from the template", (family) => {
  const chat = createChat(tokenizers[family]);
  expect(chat.format.name).toBe(formatOf[family]);
  expect(chat.templateReadsTools).toBe(family !== "plain");
});

test.each(families)("%s: tools appear in the prompt, also when the template ignores them", (family) => {
  const chat = createChat(tokenizers[family]);
  const { text } = chat.render([question], { tools: [weather] });
  expect(text).toContain("get_weather");
  expect(text).toContain("How it is outside.");
  const history = [question, { role: "assistant", content: null, tool_calls: [call('{"city": "Zürich"}')] }];
  const after = chat.render([...history, { role: "tool", tool_call_id: "call_1", content: "21" }], {
    tools: [weather],
  });
  expect(after.text).toContain('"city": "Zürich"'.replace(": ", family === "plain" ? ":" : ": "));
  expect(after.text).toMatch(/\b21\b/);
});

/** The text that the template renders for an assistant message, which is what the model would generate. */
function written(family: Family, message: ChatMessage): string {
  const chat = createChat(tokenizers[family]);
  const before = chat.render([question], { tools: [weather] }).text;
  const both = chat.render([question, message, { role: "user", content: "…and then?" }], { tools: [weather] }).text;
  const rest = both.slice(both.indexOf(question.content as string));
  const start = before.slice(before.indexOf(question.content as string)).length;
  return rest.slice(start);
}

describe("a rendered reply parses to the same message", () => {
  const args = { city: 'a "quoted" \\ city\n</tool_call> 🌍', days: 12345678901, nested: [{ deep: [1, null, true] }] };
  test.each(families)("%s: calls", (family) => {
    const message = { role: "assistant", content: "", tool_calls: [call(JSON.stringify(args))] };
    const chat = createChat(tokenizers[family]);
    const rendered = chat.render([question], { tools: [weather] });
    const ids = tokenizers[family].encode(written(family, message), { addSpecialTokens: false });
    const reply = chat.parse(ids, rendered);
    expect(reply.toolCalls.map(({ name }) => name)).toEqual(["get_weather"]);
    expect(JSON.parse(reply.toolCalls[0]!.arguments)).toEqual(args);
    expect(reply.text.trim()).toBe("");
  });

  test.each(families)("%s: text, up to the end of the turn", (family) => {
    const chat = createChat(tokenizers[family]);
    const content = "It is 21 °C — 暖かい 👩‍👩‍👧 e\u0301, {not a call}";
    const ids = tokenizers[family].encode(written(family, { role: "assistant", content }), { addSpecialTokens: false });
    expect(chat.parse(ids, chat.render([question], { tools: [weather] })).text.trim()).toBe(content);
  });

  test("qwen: reasoning, text and several calls", () => {
    const chat = createChat(tokenizers.qwen);
    const message = {
      role: "assistant",
      reasoning_content: "Two cities.\nTwo calls.",
      content: "Let me look.",
      tool_calls: [call({ city: "Oslo" }), call({ city: "Rome" }, "call_2")],
    };
    const ids = tokenizers.qwen.encode(written("qwen", message), { addSpecialTokens: false });
    expect(chat.parse(ids, chat.render([question], { tools: [weather] }))).toEqual({
      reasoning: "Two cities.\nTwo calls.",
      text: "Let me look.",
      toolCalls: [
        { name: "get_weather", arguments: '{"city": "Oslo"}' },
        { name: "get_weather", arguments: '{"city": "Rome"}' },
      ],
    });
  });
});

describe("tool call syntaxes", () => {
  const chats = Object.fromEntries(families.map((family) => [family, createChat(tokenizers[family])])) as Record<
    Family,
    Chat
  >;
  const calls = (family: Family, text: string) => parseText(chats[family], family, text).toolCalls;
  const one = [{ name: "get_weather", arguments: '{"city": "Oslo"}' }];

  test("qwen with tags: values have the type from the schema", () => {
    const text =
      "<tool_call>\n<function=get_weather>\n<parameter=city>\n123\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>";
    expect(calls("qwen", text)).toEqual([{ name: "get_weather", arguments: '{"city": "123", "days": 3}' }]);
  });
  test("llama3: with and without the tag, several separated by a semicolon, only offered tool names", () => {
    const json = '{"name": "get_weather", "parameters": {"city": "Oslo"}}';
    expect(calls("llama3", json)).toEqual(one);
    expect(calls("llama3", `<|python_tag|>${json}`)).toEqual(one);
    expect(calls("llama3", `${json}; ${json}`)).toEqual([...one, ...one]);
    const other = '{"name": "Bob", "parameters": {"age": 3}}';
    expect(parseText(chats.llama3, "llama3", other)).toEqual({ text: other, reasoning: "", toolCalls: [] });
  });
  test("mistral: as a list, one by one, by name, with reasoning", () => {
    const list = '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo"}, "id": "abcdefghi"}]';
    expect(calls("mistral", list)).toEqual(one);
    expect(calls("mistral", '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}')).toEqual(one);
    expect(calls("mistral", '[TOOL_CALLS]get_weather{"city": "Oslo"}[TOOL_CALLS]b{}')).toHaveLength(2);
    expect(parseText(chats.mistral, "mistral", "[THINK]hm[/THINK] Yes.")).toMatchObject({
      reasoning: "hm",
      text: "Yes.",
    });
  });
  test("plain JSON: the requested form, or a single call", () => {
    expect(calls("plain", '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}')).toEqual(one);
    expect(calls("plain", ' {"name": "get_weather", "arguments": {"city": "Oslo"}}\n')).toEqual(one);
  });
  test("numbers keep every digit of the model's output", () => {
    const exact = '{"id": 12345678901234567890.123456789}';
    expect(calls("qwen", `<tool_call>{"name": "f", "arguments": ${exact}}</tool_call>`)[0]?.arguments).toBe(exact);
  });
  test.each([
    ["qwen", '<tool_call>{"name": "get_weather", "arguments": {"city": '],
    ["qwen", "<tool_call>no</tool_call> and on"],
    ["qwen", '<tool_call>{"arguments": {}}</tool_call>'],
    ["qwen", `<tool_call>{"name": "f", "arguments": ${"[".repeat(100)}${"]".repeat(100)}}</tool_call>`],
    ["qwen", "a < b <tool_cal"],
    ["mistral", "[TOOL_CALLS]not a call at all"],
    ["llama3", '{"name": 1}'],
    ["plain", "[1, 2, 3]"],
  ] as const)("%s: unparsable calls are text: %s", (family, text) => {
    const reply = parseText(chats[family], family, text);
    expect(reply.toolCalls).toEqual([]);
    const skipped = family === "qwen" ? text : text.replaceAll("<|python_tag|>", "");
    expect(reply.text).toBe(skipped);
  });
  test("without tools there are no calls", () => {
    const text = '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>';
    expect(parseText(chats.qwen, "qwen", text, []).text).toBe(text);
  });
  test("the parser starts in reasoning if the prompt ends inside it", () => {
    const opened = chats.qwen.render([question], { variables: { opens_thinking: true } });
    expect(opened.startsInReasoning).toBe(true);
    const ids = tokenizers.qwen.encode("hm\n</think>\n\nYes.", { addSpecialTokens: false });
    expect(chats.qwen.parse(ids, opened)).toEqual({ reasoning: "hm", text: "Yes.", toolCalls: [] });
    expect(chats.qwen.render([question], { variables: { enable_thinking: false } }).startsInReasoning).toBe(false);
  });
});

test("custom formats are tried in the given order", () => {
  const shout: ReplyFormat = {
    name: "shout",
    markers: [],
    isUsedBy: () => true,
    createParser: (options) =>
      createReplyParser(
        {
          reasoning: { opens: "(", closes: ")" },
          createBody: () => ({ push: () => ({ is: "unfinished" }), end: () => undefined, text: "" }),
        },
        options,
      ),
  };
  const chat = createChat(tokenizers.qwen, { formats: [shout, ...replyFormats] });
  expect(chat.format.name).toBe("shout");
  expect(parseText(chat, "qwen", "(hm) yes")).toMatchObject({ reasoning: "hm", text: "yes" });
});

/** Fragments of model replies, valid and broken. */
const fragments = fc.constantFrom(
  ..."<think> </think> <tool_call> </tool_call> [TOOL_CALLS] [ARGS] [THINK] [/THINK] <|python_tag|> </function> </parameter>".split(
    " ",
  ),
  ..."<function=get_weather> <parameter=city> <tool_ [TOOL_ </thi".split(" "),
  ..."<|start|> <|channel|> analysis commentary <|message|> <|end|> <|call|> to=functions.get_weather <|constrain|>".split(
    " ",
  ),
  ..."<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁call▁end｜> <｜tool▁calls▁end｜>".split(" "),
  ..."<|tool_calls_section_begin|> <|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|>".split(" "),
  ..."<|tool_calls_section_end|> <arg_key> </arg_key> <arg_value> </arg_value> ```json functions.get_weather:0".split(
    " ",
  ),
  ...[
    '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
    '{"name": "get_weather", "parameters": {}}',
    "[{",
    "}]",
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
  ],
  ...[
    '{"tool_calls": [',
    ";",
    ",",
    "get_weather",
    "\n\n",
    " ",
    "日本語",
    "e\u0301",
    "👩‍👩‍👧",
    "\u200d",
    "\ufeff",
    "text",
    "0",
    "null",
  ],
);
const reply = fc.array(fc.oneof({ weight: 4, arbitrary: fragments }, fc.string({ unit: "grapheme", maxLength: 8 })), {
  maxLength: 14,
});
/** Each reply is parsed by every family. */
const runs = Number(process.env["FUZZ_RUNS"] ?? 10_000);

test("10,000 fuzzed replies: no exception, the same result for any split, no character lost", () => {
  const parsers = [...replyFormats];
  const property = fc.property(
    reply,
    fc.array(fc.nat(30), { maxLength: 20 }),
    fc.boolean(),
    fc.boolean(),
    (parts, cuts, offersTools, startsInReasoning) => {
      const text = parts.join("");
      const options = { tools: offersTools ? [weather] : [], startsInReasoning };
      for (const format of parsers) {
        const whole = format.createParser(options);
        const expected = replyOf([...whole.push(text), ...whole.end()]);
        const piecewise = format.createParser(options);
        const events: ReplyEvent[] = [];
        let at = 0;
        for (const cut of cuts) {
          events.push(...piecewise.push(text.slice(at, at + cut)));
          at += cut;
        }
        events.push(...piecewise.push(text.slice(at)), ...piecewise.end());
        expect(replyOf(events)).toEqual(expected);
        for (const { arguments: json } of expected.toolCalls) expect(JSON.parse(json)).toBeTypeOf("object");
        if (!offersTools && !startsInReasoning && !/<think>|\[THINK\]|<\|/.test(text)) expect(expected.text).toBe(text);
      }
    },
  );
  fc.assert(property, { numRuns: runs });
}, 120_000);

describe("token by token", () => {
  const alphabet = [..."a b.\n", "👩‍👩‍👧", "日本", "e\u0301", "ß", "\u{1f3f4}\u{e0067}", "hello", " world"];
  const words = fc.array(fc.constantFrom(...alphabet), { maxLength: 40 }).map((each) => each.join(""));
  const stops = fc.array(
    fc.array(fc.constantFrom(...alphabet), { minLength: 1, maxLength: 3 }).map((each) => each.join("")),
    { maxLength: 3 },
  );

  test("the stream equals the decoded text up to the first stop string, byte for byte, without partial characters", () => {
    const tokenizer = tokenizers.plain;
    const property = fc.property(words, stops, fc.array(fc.nat(255), { maxLength: 3 }), (text, stop, broken) => {
      // incomplete UTF-8 at the end
      const ids = [...tokenizer.encode(text, { addSpecialTokens: false }), ...broken];
      const reader = createReplyReader({ tokenizer, endTokenIds: [267], stop });
      const pieces = [...ids.map((id) => reader.push(id)), reader.push(267), reader.end()].flat();
      const whole = tokenizer.decode(ids);
      const found = stop
        .map((each) => ({ each, end: whole.indexOf(each) + each.length, at: whole.indexOf(each) }))
        .filter(({ at }) => at >= 0)
        .sort((a, b) => a.end - b.end || a.at - b.at)[0];
      expect(replyOf(pieces).text).toBe(found === undefined ? whole : whole.slice(0, found.at));
      expect(reader.ended).toEqual(found === undefined ? { by: "token" } : { by: "stop", text: found.each });
      for (const piece of pieces)
        expect((piece as { text: string }).text).not.toMatch(/^[\udc00-\udfff]|[\ud800-\udbff]$/);
    });
    fc.assert(property, { numRuns: 1000 });
  });

  test("special tokens are hidden except the ones that the family parses", () => {
    const { llama3 } = tokenizers;
    const ids = llama3.encode("<|start_header_id|>a<|begin|>b<|eot_id|>c", { addSpecialTokens: false });
    const chat = createChat(llama3);
    expect(chat.parse(ids, { text: "", tools: [weather], startsInReasoning: false }).text).toBe("ab");
  });
});
