/** Kimi K2: a section of tool calls, each `functions.NAME:INDEX<|tool_call_argument_begin|>{…}`; reasoning in `<think>`. */
import { parseJsonValue } from "../json-value.ts";
import type { ReplyFormat } from "../reply-format.ts";
import type { ToolCall } from "../types.ts";
import { sectionFormat } from "./section-format.ts";

const marks = {
  opens: "<|tool_calls_section_begin|>",
  closes: "<|tool_calls_section_end|>",
  callOpens: "<|tool_call_begin|>",
  callCloses: "<|tool_call_end|>",
  argumentsOpen: "<|tool_call_argument_begin|>",
} as const;

export const kimiFormat: ReplyFormat = sectionFormat({ name: "kimi", marks, callOf });

function callOf(text: string): ToolCall | undefined {
  const cut = text.indexOf(marks.argumentsOpen);
  if (cut < 0) return undefined;
  const name = /^\s*(?:functions\.)?([\w.-]{1,256}?)(?::\d{1,9})?\s*$/.exec(text.slice(0, cut))?.[1];
  const json = text.slice(cut + marks.argumentsOpen.length).trim();
  const value = parseJsonValue(json);
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return name !== undefined && isObject ? { name, arguments: json } : undefined;
}
