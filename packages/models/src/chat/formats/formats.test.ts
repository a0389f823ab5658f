/** Replies of the families that are detected by their special tokens, parsed at once and character by character. */
import { describe, expect, test } from "vitest";
import type { ReplyFormat } from "../reply-format.ts";
import { replyOf } from "../reply-reader.ts";
import type { ChatTool } from "../types.ts";
import { deepseekFormat } from "./deepseek.ts";
import { glmFormat } from "./glm.ts";
import { harmonyFormat } from "./harmony.ts";
import { kimiFormat } from "./kimi.ts";

const tools: readonly ChatTool[] = [
  {
    type: "function",
    function: {
      name: "get_weather",
      parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } },
    },
  },
];
const weather = (city: string, rest: object = {}) => ({ name: "get_weather", arguments: { city, ...rest } });

/** Parses a reply at once and character by character; both must give the same result. */
function read(
  format: ReplyFormat,
  text: string,
  options: { startsInReasoning?: boolean; tools?: readonly ChatTool[] } = {},
) {
  const parserOptions = { tools, startsInReasoning: false, ...options };
  const [whole, pieces] = [format.createParser(parserOptions), format.createParser(parserOptions)];
  const reply = replyOf([...whole.push(text), ...whole.end()]);
  expect(replyOf([...[...text].flatMap((letter) => pieces.push(letter)), ...pieces.end()])).toEqual(reply);
  const toolCalls = reply.toolCalls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) as unknown }));
  return { ...reply, toolCalls };
}

describe("DeepSeek", () => {
  const call = (body: string) => `<｜tool▁call▁begin｜>${body}<｜tool▁call▁end｜>`;
  const section = (...bodies: string[]) => `<｜tool▁calls▁begin｜>${bodies.map(call).join("\n")}<｜tool▁calls▁end｜>`;
  const older = 'function<｜tool▁sep｜>get_weather\n```json\n{"city": "Oslo"}\n```';
  const newer = 'get_weather<｜tool▁sep｜>{"city": "Zürich", "days": 2}';

  test("calls in both syntaxes, after reasoning and text", () => {
    expect(read(deepseekFormat, `<think>hm</think>Let me see.${section(older, newer)}`)).toEqual({
      reasoning: "hm",
      text: "Let me see.",
      toolCalls: [weather("Oslo"), weather("Zürich", { days: 2 })],
    });
    expect(read(deepseekFormat, `so</think>${section(newer)}`, { startsInReasoning: true })).toMatchObject({
      reasoning: "so",
      toolCalls: [weather("Zürich", { days: 2 })],
    });
  });

  test("unparsable calls are text", () => {
    for (const text of [
      section("get_weather<｜tool▁sep｜>{broken"),
      section("no separator"),
      `<｜tool▁calls▁begin｜>${call(newer)}`,
      section(newer, "bad<｜tool▁sep｜>[1]"),
    ]) {
      expect(read(deepseekFormat, text)).toEqual({ reasoning: "", text, toolCalls: [] });
    }
  });
});

describe("Kimi", () => {
  const call = (name: string, json: string) =>
    `<|tool_call_begin|>${name}<|tool_call_argument_begin|>${json}<|tool_call_end|>`;
  const section = (...calls: string[]) => `<|tool_calls_section_begin|>${calls.join("")}<|tool_calls_section_end|>`;

  test("the call id contains the function name", () => {
    const text = `Sure.${section(call("functions.get_weather:0", '{"city": "Oslo"}'), call("functions.get_weather:1", '{"city": "Rome"}'))}`;
    expect(read(kimiFormat, text)).toEqual({
      reasoning: "",
      text: "Sure.",
      toolCalls: [weather("Oslo"), weather("Rome")],
    });
    expect(read(kimiFormat, `<think>a</think>${section(call("get_weather", "{}"))}`)).toMatchObject({
      reasoning: "a",
      toolCalls: [{ name: "get_weather", arguments: {} }],
    });
  });

  test("unparsable calls are text", () => {
    for (const text of [
      section(call("functions.get_weather:0", "{")),
      section("nothing"),
      section(call("a b", "{}")),
    ]) {
      expect(read(kimiFormat, text)).toEqual({ reasoning: "", text, toolCalls: [] });
    }
  });
});

describe("GLM", () => {
  const argument = (key: string, value: string) => `<arg_key>${key}</arg_key>\n<arg_value>${value}</arg_value>\n`;

  test("arguments are parsed with the tool's schema", () => {
    const text = `\n<think>hm</think>\nWell.\n<tool_call>get_weather\n${argument("city", "12")}${argument("days", "3")}</tool_call>`;
    expect(read(glmFormat, text)).toEqual({ reasoning: "hm", text: "Well.", toolCalls: [weather("12", { days: 3 })] });
    expect(read(glmFormat, "<tool_call>get_weather</tool_call>").toolCalls).toEqual([
      { name: "get_weather", arguments: {} },
    ]);
  });

  test("unparsable calls are text", () => {
    for (const text of ["<tool_call>two words</tool_call>", "<tool_call>f<arg_key>a</arg_key></tool_call>"]) {
      expect(read(glmFormat, text)).toEqual({ reasoning: "", text, toolCalls: [] });
    }
  });
});

describe("harmony", () => {
  test("channels map to reasoning, answer and calls", () => {
    const text =
      "<|channel|>analysis<|message|>Let me think.<|end|><|start|>assistant<|channel|>commentary<|message|>One moment.<|end|>" +
      '<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}<|call|>';
    const expected = { reasoning: "Let me think.", text: "One moment.", toolCalls: [weather("Oslo")] };
    expect(read(harmonyFormat, text)).toEqual(expected);
    // <|call|> also ends the reply, so the parser does not receive it.
    expect(read(harmonyFormat, text.replace("<|call|>", ""))).toEqual(expected);
    const turned = '<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Rome"}';
    expect(read(harmonyFormat, turned).toolCalls).toEqual([weather("Rome")]);
    expect(read(harmonyFormat, "<|channel|>final<|message|>Yes.<|return|>")).toMatchObject({
      text: "Yes.",
      reasoning: "",
    });
  });

  test("malformed messages are text; an incomplete header is dropped", () => {
    const broken = "<|channel|>commentary to=functions.get_weather<|message|>{oh";
    expect(read(harmonyFormat, broken)).toEqual({ reasoning: "", text: "{oh", toolCalls: [] });
    expect(read(harmonyFormat, "Just text.")).toMatchObject({ text: "Just text." });
    const long = "word ".repeat(200);
    expect(read(harmonyFormat, long)).toMatchObject({ text: long });
    expect(read(harmonyFormat, "<|channel|>final<|message|>Yes.<|end|><|start|>assis")).toMatchObject({ text: "Yes." });
    expect(read(harmonyFormat, "<|channel|>commentary to=functions.x<|message|>{}", { tools: [] })).toMatchObject({
      text: "{}",
    });
  });
});
