/**
 * DeepSeek V3, R1 and V3.1: calls in a section of their own, each `name<｜tool▁sep｜>{…}`, in older ones
 * `function<｜tool▁sep｜>name` with the arguments in a fenced block; reasoning in `<think>`.
 */
import { parseJsonValue } from "../json-value.ts";
import type { ReplyFormat } from "../reply-format.ts";
import { createReplyParser } from "../reply-parser.ts";
import type { ToolCall } from "../types.ts";
import { sectionBody } from "./section-body.ts";

const marks = {
  opens: "<｜tool▁calls▁begin｜>",
  closes: "<｜tool▁calls▁end｜>",
  callOpens: "<｜tool▁call▁begin｜>",
  callCloses: "<｜tool▁call▁end｜>",
  separates: "<｜tool▁sep｜>",
} as const;

export const deepseekFormat: ReplyFormat = {
  name: "deepseek",
  markers: [...Object.values(marks), "<think>", "</think>"],
  reasoningOpens: "<think>",
  textArguments: true,
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
    const end = part.indexOf(marks.callCloses);
    const call = end < 0 ? undefined : callOf(part.slice(0, end));
    if (call === undefined) return undefined;
    calls.push(call);
  }
  return calls;
}

function callOf(text: string): ToolCall | undefined {
  const cut = text.indexOf(marks.separates);
  if (cut < 0) return undefined;
  const [before, after] = [text.slice(0, cut).trim(), text.slice(cut + marks.separates.length)];
  const fenced = /^([^\n]{1,256})\n```json\n([\s\S]*?)\n?```\s*$/.exec(after);
  const [name, json] = fenced ? [(fenced[1] as string).trim(), fenced[2] as string] : [before, after.trim()];
  const value = parseJsonValue(json);
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return /^[\w.-]{1,256}$/.test(name) && isObject ? { name, arguments: json } : undefined;
}
