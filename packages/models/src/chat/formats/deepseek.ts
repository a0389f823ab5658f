/**
 * DeepSeek V3, R1 and V3.1: a section of tool calls, each `name<｜tool▁sep｜>{…}`, or in older versions `function<｜tool▁sep｜>name` with
 * the arguments in a fenced block; reasoning in `<think>`.
 */
import { parseJsonValue } from "../json-value.ts";
import type { ReplyFormat } from "../reply-format.ts";
import type { ToolCall } from "../types.ts";
import { sectionFormat } from "./section-format.ts";

const marks = {
  opens: "<｜tool▁calls▁begin｜>",
  closes: "<｜tool▁calls▁end｜>",
  callOpens: "<｜tool▁call▁begin｜>",
  callCloses: "<｜tool▁call▁end｜>",
  separates: "<｜tool▁sep｜>",
} as const;

export const deepseekFormat: ReplyFormat = {
  ...sectionFormat({ name: "deepseek", marks, callOf }),
  textArguments: true,
};

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
