/** Builds the reply format of a family that puts its calls in one section, each call between two markers, with reasoning in `<think>`. */
import type { ReplyFormat } from "../reply-format.ts";
import { createReplyParser } from "../reply-parser.ts";
import type { ToolCall } from "../types.ts";
import { sectionBody } from "./section-body.ts";

/** The markers of a family and its call syntax. */
export interface SectionFormat {
  readonly name: string;
  /** Markers around the section and around each call, and any others used inside a call. */
  readonly marks: Readonly<Record<"opens" | "closes" | "callOpens" | "callCloses", string>>;
  /** Parses the text between the call markers; undefined if it is not a call. */
  readonly callOf: (text: string) => ToolCall | undefined;
}

export function sectionFormat({ name, marks, callOf }: SectionFormat): ReplyFormat {
  /** All calls of a section; undefined if any of them is malformed. */
  const callsOf = (text: string): readonly ToolCall[] | undefined => {
    const calls: ToolCall[] = [];
    for (const part of text.split(marks.callOpens).slice(1)) {
      const end = part.indexOf(marks.callCloses);
      const call = end < 0 ? undefined : callOf(part.slice(0, end));
      if (call === undefined) return undefined;
      calls.push(call);
    }
    return calls;
  };
  return {
    name,
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
}
