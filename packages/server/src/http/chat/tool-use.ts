/**
 * How a reply may use tools: freely, not at all, or as the client demands. A demanded call is decoded under a grammar that is made from the
 * tools' own schemas; so are the arguments of tools that are marked strict.
 */
import type { ChatTool, ReplyEvent, ReplyReader, ToolCall } from "@tinklet/models/chat";
import { callsIn, listIn } from "@tinklet/models/chat";
import { badField } from "./fields.ts";
import type { ResponseFormat } from "./response-format.ts";

/** A tool, and the paths of its fields in the request, which error messages name. */
export interface OfferedTool {
  readonly tool: ChatTool;
  readonly schemaParam: string;
  /** The arguments must fit the schema: a schema that cannot be compiled is an error. */
  readonly strict: boolean;
  readonly strictParam: string;
}

export interface ToolUse {
  /** Tools that the prompt describes. */
  readonly offered: readonly OfferedTool[];
  /** Tools of which the reply must call one; empty where it need not call any. */
  readonly demanded: readonly OfferedTool[];
  /** Whether a reply may have more than one call. */
  readonly parallel: boolean;
}

export const noTools: ToolUse = { offered: [], demanded: [], parallel: true };

/** What the client chose, in the terms of both APIs. */
export type ToolChoice =
  | { readonly type: "auto" | "none" | "required" }
  | { readonly type: "named"; readonly name: string; readonly param: string };

/** @throws Refusal 400 where the choice names no offered tool */
export function toolUseOf(offered: readonly OfferedTool[], choice: ToolChoice, parallel: boolean): ToolUse {
  switch (choice.type) {
    case "none":
      return noTools;
    case "auto":
      return { offered, demanded: [], parallel };
    case "required":
      if (offered.length === 0) throw badField("tool_choice", "requires a call, but tools is empty");
      return { offered, demanded: offered, parallel };
    case "named": {
      const demanded = offered.filter(({ tool }) => tool.function.name === choice.name);
      if (demanded.length > 0) return { offered, demanded, parallel };
      const names = offered
        .map(({ tool }) => tool.function.name)
        .join(", ")
        .slice(0, 300);
      throw badField(choice.param, `${JSON.stringify(choice.name.slice(0, 128))} is not among the tools (${names})`);
    }
    default:
      return choice satisfies never;
  }
}

/** JSON that is a call: its grammar, and how its text is read. */
export interface CallGrammar {
  readonly format: ResponseFormat;
  /** @returns undefined where the text is not a call, for example because it was cut off. */
  readonly read: (text: string) => readonly ToolCall[] | undefined;
}

const anyObject = { type: "object" };
const schemaOf = ({ tool }: OfferedTool, isLoose: boolean): unknown =>
  isLoose ? anyObject : (tool.function.parameters ?? { type: "object", properties: {}, additionalProperties: false });

/**
 * A format whose schema is made of tools' schemas. Where one uses keywords that the grammar does not support, tools that are not strict
 * fall back to any JSON object (`looser`).
 */
function formatOf(
  tools: readonly OfferedTool[],
  schemaWith: (isLoose: boolean) => unknown,
  { param, roomParam }: Pick<ResponseFormat, "param" | "roomParam">,
): ResponseFormat {
  const formatWith = (isLoose: boolean): ResponseFormat => ({
    constraint: { type: "json_schema", schema: schemaWith(isLoose) },
    param,
    roomParam,
  });
  const canLoosen = tools.some(({ strict }) => !strict);
  return { ...formatWith(false), ...(canLoosen ? { looser: () => formatWith(true) } : {}) };
}

/** The arguments of one tool, or an object with `name` and `arguments` for several. */
export function callGrammar(demanded: readonly OfferedTool[], roomParam: string): CallGrammar {
  const [first] = demanded;
  const only = demanded.length === 1 ? first : undefined;
  const schemaWith = (isLoose: boolean): unknown =>
    only === undefined ? unionOf(demanded, isLoose) : schemaOf(only, isLoose);
  const format = formatOf(demanded, schemaWith, { param: only?.schemaParam ?? "tools", roomParam });
  return { format, read: (text) => readCall(text, only) };
}

function readCall(text: string, only: OfferedTool | undefined): readonly ToolCall[] | undefined {
  if (only === undefined) return callsIn(text, { argumentKeys: ["arguments"] });
  const name = only.tool.function.name;
  return callsIn(`{"name":${JSON.stringify(name)},"arguments":${text}}`, { argumentKeys: ["arguments"] });
}

/** A call of one of several tools. Each schema moves below `$defs`, and its references with it. */
function unionOf(tools: readonly OfferedTool[], isLoose: boolean) {
  const definitions: Record<string, unknown> = {};
  const anyOf = tools.map((each, i) => {
    const key = `t${i}`;
    definitions[key] = moveReferences(schemaOf(each, isLoose && !each.strict), `#/$defs/${key}`);
    return {
      type: "object",
      properties: { name: { const: each.tool.function.name }, arguments: { $ref: `#/$defs/${key}` } },
      required: ["name", "arguments"],
      additionalProperties: false,
    };
  });
  return { anyOf, $defs: definitions };
}

/** Keywords whose values are data, and keywords whose values have names of the client as keys. */
const dataKeywords = new Set(["const", "enum", "default", "examples"]);
const nameKeywords = new Set(["properties", "$defs", "definitions", "patternProperties"]);

/** Recursion is bounded: bodies have at most `jsonDepth` levels. */
function moveReferences(value: unknown, to: string, keysAreNames = false): unknown {
  if (Array.isArray(value)) return value.map((each) => moveReferences(each, to));
  if (typeof value !== "object" || value === null) return value;
  const moved = Object.entries(value).map(([key, each]): [string, unknown] => {
    if (keysAreNames) return [key, moveReferences(each, to)];
    if (dataKeywords.has(key)) return [key, each];
    if (key === "$ref" && typeof each === "string" && /^#(\/|$)/.test(each)) return [key, to + each.slice(1)];
    return [key, moveReferences(each, to, nameKeywords.has(key))];
  });
  return Object.fromEntries(moved);
}

/**
 * A reply that either fits a format or is `{"tool_calls": [{"name": …, "arguments": …}]}` with one call, for requests with both a response
 * format and tools.
 */
export function formatOrCallGrammar(format: ResponseFormat, offered: readonly OfferedTool[]): CallGrammar {
  const { constraint } = format;
  const own = constraint.type === "json_schema" ? constraint.schema : anyObject;
  const schemaWith = (isLoose: boolean): object => {
    const union = unionOf(offered, isLoose);
    const calls = {
      type: "object",
      properties: { tool_calls: { type: "array", items: { anyOf: union.anyOf }, minItems: 1, maxItems: 1 } },
      required: ["tool_calls"],
      additionalProperties: false,
    };
    const definitions = { ...union.$defs, reply: moveReferences(own, "#/$defs/reply") };
    return { anyOf: [{ $ref: "#/$defs/reply" }, calls], $defs: definitions };
  };
  const names = new Set(offered.map(({ tool }) => tool.function.name));
  return {
    format: formatOf(offered, schemaWith, format),
    read: (text) => {
      const list = listIn(text, "tool_calls");
      return list === undefined
        ? undefined
        : callsIn(list, { argumentKeys: ["arguments"], isTool: (name) => names.has(name) });
    },
  };
}

/** Reads a reply that is one JSON value: a call is emitted at its end; anything else is text. */
export function callReader(plain: ReplyReader, read: CallGrammar["read"]): ReplyReader {
  let text = "";
  let isRead = false;
  const collect = (events: readonly ReplyEvent[]): void => {
    for (const event of events) if (event.type === "text") text += event.text;
  };
  const finish = (): ReplyEvent[] => {
    if (isRead) return [];
    isRead = true;
    const calls = read(text);
    if (calls !== undefined) return calls.map((call) => ({ type: "tool_call", call }));
    return text === "" ? [] : [{ type: "text", text }];
  };
  return {
    push(id) {
      collect(plain.push(id));
      return plain.ended === undefined ? [] : finish();
    },
    end() {
      collect(plain.end());
      return finish();
    },
    get ended() {
      return plain.ended;
    },
  };
}

/** Ends a reply after its first call. */
export function firstCallOnly(reader: ReplyReader): ReplyReader {
  let hasCall = false;
  const cut = (events: ReplyEvent[]): ReplyEvent[] => {
    if (hasCall) return [];
    const at = events.findIndex(({ type }) => type === "tool_call");
    if (at < 0) return events;
    hasCall = true;
    return events.slice(0, at + 1);
  };
  return {
    push: (id) => (hasCall ? [] : cut(reader.push(id))),
    end: () => cut(reader.end()),
    get ended() {
      return hasCall ? { by: "token" as const } : reader.ended;
    },
  };
}
