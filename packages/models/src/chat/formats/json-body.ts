/** A call body that is one JSON value. */
import { type CallShape, callsIn, createJsonCollector } from "../json-value.ts";
import type { CallBody } from "../reply-parser.ts";
import type { ToolCall } from "../types.ts";

/** @param read - converts the complete JSON value to calls. @defaultValue accepts one call object or a list of them */
export function jsonBody(
  shape: CallShape,
  read: (json: string) => readonly ToolCall[] | undefined = (json) => callsIn(json, shape),
): CallBody {
  const collector = createJsonCollector();
  let before = ""; // white space between the marker and the value
  let began = false;
  return {
    push(piece) {
      let rest = piece;
      if (!began) {
        rest = piece.trimStart();
        before += piece.slice(0, piece.length - rest.length);
        if (rest === "") return { is: "unfinished" };
        if (rest[0] !== "{" && rest[0] !== "[") return { is: "text", rest };
        began = true;
      }
      const step = collector.push(rest);
      if (!step.done) return { is: "unfinished" };
      const calls = read(collector.text);
      return calls === undefined ? { is: "text", rest: step.rest } : { is: "calls", calls, rest: step.rest };
    },
    end: () => undefined,
    get text() {
      return before + collector.text;
    },
  };
}
