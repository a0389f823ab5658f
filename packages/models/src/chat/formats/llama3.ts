/** Llama 3.1 and later: a reply that is `{"name": …, "parameters": {…}}`, perhaps behind `<|python_tag|>`, several with `;` between. */
import type { ReplyFormat } from "../reply-format.ts";
import { createReplyParser } from "../reply-parser.ts";
import { jsonBody } from "./json-body.ts";

const tag = "<|python_tag|>";

export const llama3Format: ReplyFormat = {
  name: "llama3",
  markers: [tag],
  isUsedBy: ({ withCall = "", hasToken }) =>
    /\{"name": ?"probe_tool", ?"parameters"/.test(withCall) || (hasToken(tag) && hasToken("<|eot_id|>")),
  createParser: (options) =>
    createReplyParser(
      {
        callOpens: tag,
        bareCalls: "{",
        separators: ";",
        // Without the mark it may be JSON that somebody asked for: then only the name of a tool makes it a call.
        createBody: ({ tools }, marked) =>
          jsonBody({
            argumentKeys: ["parameters", "arguments"],
            ...(marked ? {} : { isTool: (name) => tools.some((tool) => tool.function.name === name) }),
          }),
      },
      options,
    ),
};
