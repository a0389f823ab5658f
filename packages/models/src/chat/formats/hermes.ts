/**
 * Qwen2.5, Qwen3 and the many that follow Hermes: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, reasoning in `<think>`.
 * Newer Qwen models write the same call with tags, `<function=name><parameter=key>value</parameter></function>`; both are read.
 */
import { parseJsonValue } from "../json-value.ts";
import type { ParserOptions, ReplyFormat } from "../reply-format.ts";
import { type CallBody, createReplyParser } from "../reply-parser.ts";
import { createTextSearch } from "../text-search.ts";
import type { ToolCall } from "../types.ts";
import { chosenBody } from "./chosen-body.ts";
import { jsonBody } from "./json-body.ts";

const opens = "<tool_call>";
const closes = "</tool_call>";

export const hermesFormat: ReplyFormat = {
  name: "hermes",
  markers: [opens, closes, "<think>", "</think>"],
  reasoningOpens: "<think>",
  isUsedBy: ({ withTool, withCall }) => `${withTool} ${withCall}`.includes(opens),
  createParser: (options) =>
    createReplyParser(
      {
        reasoning: { opens: "<think>", closes: "</think>" },
        callOpens: opens,
        callCloses: closes,
        createBody: (given) =>
          chosenBody((first) =>
            first === "<" ? taggedBody(given) : jsonBody({ argumentKeys: ["arguments", "parameters"] }),
          ),
      },
      options,
    ),
};

const functionEnd = "</function>";

/** `<function=name>` up to `</function>`. */
function taggedBody(options: ParserOptions): CallBody {
  const search = createTextSearch([functionEnd]);
  const pieces: string[] = [];
  return {
    push(piece) {
      const { text, found, rest } = search.push(piece);
      pieces.push(text);
      if (found === undefined) return { is: "unfinished" };
      pieces.push(found);
      const call = taggedCall(pieces.join(""), options);
      return call === undefined ? { is: "text", rest } : { is: "calls", calls: [call], rest };
    },
    end() {
      pieces.push(search.end());
      return undefined;
    },
    get text() {
      return pieces.join("");
    },
  };
}

function taggedCall(text: string, { tools }: ParserOptions): ToolCall | undefined {
  const head = /^<function=([^>\s]+)>/.exec(text);
  if (head === null) return undefined;
  const name = head[1]!;
  const schema = tools.find((tool) => tool.function.name === name)?.function.parameters;
  const members: string[] = [];
  let rest = text.slice(head[0].length, -functionEnd.length).trim();
  while (rest !== "") {
    const open = /^<parameter=([^>\s]+)>/.exec(rest);
    const end = rest.indexOf("</parameter>");
    if (open === null || end < 0) return undefined;
    const value = rest
      .slice(open[0].length, end)
      .replace(/^\r?\n/, "")
      .replace(/\r?\n$/, "");
    members.push(`${JSON.stringify(open[1])}: ${taggedValue(value, typeOf(schema, open[1]!))}`);
    rest = rest.slice(end + "</parameter>".length).trimStart();
  }
  const json = `{${members.join(", ")}}`;
  return parseJsonValue(json) === undefined ? undefined : { name, arguments: json };
}

/** The type that a tool's schema gives to an argument, if it gives one. */
function typeOf(schema: unknown, name: string): unknown {
  const properties = (schema as { properties?: Record<string, { type?: unknown } | null> } | null | undefined)
    ?.properties;
  return typeof properties === "object" && properties !== null && Object.hasOwn(properties, name)
    ? properties[name]?.type
    : undefined;
}

/** Values are written bare: a text is one unless the schema says otherwise and it can be read so. */
function taggedValue(text: string, type: unknown): string {
  if (type === undefined || type === "string") return JSON.stringify(text);
  return parseJsonValue(text) === undefined ? JSON.stringify(text) : text.trim();
}
