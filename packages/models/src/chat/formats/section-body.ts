/** A call, or several, whose end is a mark: all up to it is collected and then read as a whole. */
import type { CallBody } from "../reply-parser.ts";
import { createTextSearch } from "../text-search.ts";
import type { ToolCall } from "../types.ts";

/**
 * @param closes - the mark at the end.
 * @param read - the calls in what stands before the mark, or undefined when it is none.
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
