/** A body of one or more calls that ends with a marker: the text is collected up to the marker and then parsed at once. */
import type { CallBody } from "../reply-parser.ts";
import { createTextSearch } from "../text-search.ts";
import type { ToolCall } from "../types.ts";

/**
 * @param closes - the end marker.
 * @param read - parses the text before the marker; returns undefined if it is not a valid call.
 */
export function sectionBody(closes: string, read: (text: string) => readonly ToolCall[] | undefined): CallBody {
  const search = createTextSearch([closes]);
  const pieces: string[] = [];
  let mark = "";
  return {
    push(piece) {
      const { text, found, rest } = search.push(piece);
      pieces.push(text);
      if (found === undefined) return { is: "unfinished" };
      const calls = read(pieces.join(""));
      if (calls !== undefined && calls.length > 0) return { is: "calls", calls, rest };
      mark = found;
      return { is: "text", rest };
    },
    end() {
      pieces.push(search.end());
      return undefined;
    },
    get text() {
      return pieces.join("") + mark;
    },
  };
}
