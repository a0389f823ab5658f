/** Llama 3.1 and later: a reply of the form `{"name": …, "parameters": {…}}`, optionally after `<|python_tag|>`, separated by `;`. */
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
        // Without the tag it may be JSON that the user asked for, so it is a call only if it names an offered tool.
        createBody: ({ tools }, marked) =>
          jsonBody({
            argumentKeys: ["parameters", "arguments"],
            ...(marked ? {} : { isTool: (name) => tools.some((tool) => tool.function.name === name) }),
          }),
      },
      options,
    ),
};
