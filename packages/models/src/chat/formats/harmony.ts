/**
 * gpt-oss (harmony): a reply is a list of messages, each with a header that names a channel. `<|channel|>analysis<|message|>` is reasoning,
 * `final` is the answer, and `commentary to=functions.NAME` is a tool call, whose end token also ends the reply.
 */
import { parseJsonValue } from "../json-value.ts";
import type { ParserOptions, ReplyFormat, ReplyParser } from "../reply-format.ts";
import { createTextSearch } from "../text-search.ts";
import type { ReplyEvent } from "../types.ts";

const [start, channel, constrain, message] = ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"];
const ends = ["<|end|>", "<|call|>", "<|return|>"];

export const harmonyFormat: ReplyFormat = {
  name: "harmony",
  markers: [start, channel, constrain, message, ...ends],
  isUsedBy: ({ plain, hasToken }) => hasToken(channel) && hasToken(message) && plain?.includes(start) === true,
  createParser: createHarmonyParser,
};

/** Characters. A longer header is treated as text. */
const longestHeader = 512;

type Part = "text" | "reasoning" | "call";

function createHarmonyParser({ tools }: ParserOptions): ReplyParser {
  const search = createTextSearch([start, channel, constrain, message, ...ends]);
  let events: ReplyEvent[] = [];
  /** Text before `<|message|>`; undefined inside a message. */
  let header: string | undefined = "";
  let part: Part = "text";
  let name = "";
  const held: string[] = []; // arguments of the current call, until it is complete
  let began = false;

  const write = (text: string): void => {
    if (text === "") return;
    if (part === "call") held.push(text);
    else events.push({ type: part, text });
  };
  const open = (): void => {
    began = true;
    const to = /(?:^|\s)to=(?:functions\.)?([\w.-]{1,256})/.exec(header as string)?.[1];
    name = to ?? "";
    const isCall = to !== undefined && tools.length > 0;
    part = isCall ? "call" : (header as string).includes(`${channel}analysis`) ? "reasoning" : "text";
    header = undefined;
  };
  /** Ends the current message. */
  const close = (): void => {
    const json = held.splice(0).join("");
    if (part === "call") {
      const value = parseJsonValue(json === "" ? "{}" : json);
      const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
      if (isObject) events.push({ type: "tool_call", call: { name, arguments: json === "" ? "{}" : json } });
      else if (json !== "") events.push({ type: "text", text: json });
    }
    part = "text";
    header = "";
  };
  const headerText = (text: string): void => {
    header = (header as string) + text;
    if (header.length <= longestHeader) return;
    const all = header; // malformed header: emit it as text
    header = undefined;
    part = "text";
    write(all);
  };
  const taken = (): ReplyEvent[] => {
    const out = events;
    events = [];
    return out;
  };
  return {
    push(piece) {
      for (let rest = piece; rest !== ""; ) {
        const step = search.push(rest);
        if (header === undefined) write(step.text);
        else headerText(step.text);
        rest = step.rest;
        if (step.found === undefined) break;
        if (header === undefined) {
          if (step.found === start || ends.includes(step.found)) close();
          else write(step.found);
        } else if (step.found === message) open();
        else if (step.found === channel || step.found === constrain) headerText(step.found);
        else if (ends.includes(step.found)) {
          // An end token without a message: emit the header as text.
          const all = header;
          header = undefined;
          write(all);
          close();
        } // <|start|> begins a header, and the parser is already in one
      }
      return taken();
    },
    end() {
      const left = search.end();
      if (header === undefined) {
        write(left);
        close();
      } else {
        const all = (header + left).replaceAll(channel, "").replaceAll(constrain, "");
        part = "text";
        // Drop an incomplete header; keep text that has no special tokens at all.
        if (!began && header + left === all) write(all);
      }
      return taken();
    },
  };
}
