/** A call body with several possible syntaxes, chosen by the first character that is not white space. */
import type { CallBody } from "../reply-parser.ts";

export function chosenBody(choose: (first: string) => CallBody): CallBody {
  let before = "";
  let body: CallBody | undefined;
  return {
    push(piece) {
      if (body !== undefined) return body.push(piece);
      const rest = piece.trimStart();
      before += piece.slice(0, piece.length - rest.length);
      if (rest === "") return { is: "unfinished" };
      body = choose(rest[0] as string);
      return body.push(rest);
    },
    end: () => body?.end(),
    get text() {
      return before + (body?.text ?? "");
    },
  };
}
