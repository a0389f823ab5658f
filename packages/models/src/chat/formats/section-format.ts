/** Families whose calls stand in a section of their own, each between two marks, with reasoning in `<think>`: how one of them reads replies. */
import type { ReplyFormat } from "../reply-format.ts";
import { createReplyParser } from "../reply-parser.ts";
import type { ToolCall } from "../types.ts";
import { sectionBody } from "./section-body.ts";

/** What a family writes, and how it writes a call. */
export interface SectionFormat {
  readonly name: string;
  /** The section's marks, those of each call, and whatever stands within one. */
  readonly marks: Readonly<Record<"opens" | "closes" | "callOpens" | "callCloses", string>>;
  /** The call between its marks; undefined when it is none. */
  readonly callOf: (text: string) => ToolCall | undefined;
}

export function sectionFormat({ name, marks, callOf }: SectionFormat): ReplyFormat {
  /** All calls of a section; undefined when one of them is none. */
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
