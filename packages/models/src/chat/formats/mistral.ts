/**
 * Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, in newer models `[TOOL_CALLS]name[ARGS]{…}` per call; reasoning in
 * `[THINK]`.
 */
import { createJsonCollector, parseJsonValue } from "../json-value.ts";
import type { ReplyFormat } from "../reply-format.ts";
import { type CallBody, createReplyParser } from "../reply-parser.ts";
import { chosenBody } from "./chosen-body.ts";
import { jsonBody } from "./json-body.ts";

const opens = "[TOOL_CALLS]";

export const mistralFormat: ReplyFormat = {
  name: "mistral",
  markers: [opens, "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"],
  reasoningOpens: "[THINK]",
  shortCallIds: true,
  isUsedBy: ({ withCall, hasToken }) => withCall?.includes(opens) === true || hasToken(opens),
  createParser: (options) =>
    createReplyParser(
      {
        reasoning: { opens: "[THINK]", closes: "[/THINK]" },
        callOpens: opens,
        // A list or object starts with a bracket, a name does not.
        createBody: () =>
          chosenBody((first) =>
            /[[{]/.test(first) ? jsonBody({ argumentKeys: ["arguments", "parameters"] }) : namedBody(),
          ),
      },
      options,
    ),
};

/** A function name, optionally followed by the call id. */
const head = /^([\w.-]{1,256})\s*(?:\[CALL_ID\][\w-]{1,64}\s*)?(?:\[ARGS\])?\s*$/;
/** Characters. A longer head is treated as text. */
const longestHead = 512;

function namedBody(): CallBody {
  const arguments_ = createJsonCollector();
  let name = "";
  let began = false;
  return {
    push(piece) {
      let rest = piece;
      if (!began) {
        const brace = piece.indexOf("{");
        name += brace < 0 ? piece : piece.slice(0, brace);
        rest = brace < 0 ? "" : piece.slice(brace);
        if (name.length > longestHead || (brace >= 0 && !head.test(name))) return { is: "text", rest };
        if (brace < 0) return { is: "unfinished" };
        began = true;
      }
      const step = arguments_.push(rest);
      if (!step.done) return { is: "unfinished" };
      const isCall = parseJsonValue(arguments_.text) !== undefined;
      if (!isCall) return { is: "text", rest: step.rest };
      const call = { name: head.exec(name)![1]!, arguments: arguments_.text };
      return { is: "calls", calls: [call], rest: step.rest };
    },
    end: () => undefined,
    get text() {
      return name + arguments_.text;
    },
  };
}
