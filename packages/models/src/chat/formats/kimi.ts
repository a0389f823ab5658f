/** Kimi K2: calls in a section of their own, each `functions.NAME:INDEX<|tool_call_argument_begin|>{…}`; reasoning in `<think>`. */
import { parseJsonValue } from "../json-value.ts";
import type { ReplyFormat } from "../reply-format.ts";
import { createReplyParser } from "../reply-parser.ts";
import type { ToolCall } from "../types.ts";
import { sectionBody } from "./section-body.ts";

const marks = {
  opens: "<|tool_calls_section_begin|>",
  closes: "<|tool_calls_section_end|>",
  callOpens: "<|tool_call_begin|>",
  callCloses: "<|tool_call_end|>",
  argumentsOpen: "<|tool_call_argument_begin|>",
} as const;

export const kimiFormat: ReplyFormat = {
  name: "kimi",
  markers: [...Object.values(marks), "<think>", "</think>"],
  reasoningOpens: "<think>",
  isUsedBy: ({ withCall, hasToken }) => withCall?.includes(marks.opens) === true || hasToken(marks.opens),
  createParser: (options) =>
    createReplyParser(
      {
        reasoning: { opens: "<think>", closes: "</think>" },
        callOpens: marks.opens,
        callCloses: marks.closes,
        createBody: () => sectionBody(marks.closes, callsOf),
      },
      options,
    ),
};

/** All calls of a section; undefined when one of them is none. */
function callsOf(text: string): readonly ToolCall[] | undefined {
  const calls: ToolCall[] = [];
  for (const part of text.split(marks.callOpens).slice(1)) {
    const [cut, end] = [part.indexOf(marks.argumentsOpen), part.indexOf(marks.callCloses)];
    if (cut < 0 || end < cut) return undefined;
    const name = /^\s*(?:functions\.)?([\w.-]{1,256}?)(?::\d{1,9})?\s*$/.exec(part.slice(0, cut))?.[1];
    const json = part.slice(cut + marks.argumentsOpen.length, end).trim();
    const value = parseJsonValue(json);
    if (name === undefined || typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    calls.push({ name, arguments: json });
  }
  return calls;
}
