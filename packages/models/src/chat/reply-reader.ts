/**
 * From token ids to the parts of a reply, while they are drawn: whole characters only, without special tokens, up to the first stop
 * text, and then through the parser of the model's family.
 */
import { createTextStream } from "../tokenizer/text-stream.ts";
import type { Tokenizer } from "../tokenizer/types.ts";
import type { ReplyParser } from "./reply-format.ts";
import { createTextSearch } from "./text-search.ts";
import type { Reply, ReplyEvent } from "./types.ts";

export interface ReplyReaderOptions {
  readonly tokenizer: Tokenizer;
  /** Reads the text. Without one all of it is text. */
  readonly parser?: ReplyParser;
  /** Special tokens that the parser wants to see. */
  readonly markers?: readonly string[];
  /** Ids that end the reply and are no part of it. */
  readonly endTokenIds: readonly number[];
  /** Texts that end the reply and are no part of it. */
  readonly stop?: readonly string[];
}

/** Reads one reply. */
export interface ReplyReader {
  /** Takes the next token. After the end of the reply it gives nothing. */
  push(id: number): ReplyEvent[];
  /** No token follows. */
  end(): ReplyEvent[];
  /** What ended the reply, once something has. */
  readonly ended: { readonly by: "token" } | { readonly by: "stop"; readonly text: string } | undefined;
}

const plain: ReplyParser = { push: (text) => (text === "" ? [] : [{ type: "text", text }]), end: () => [] };

export function createReplyReader(options: ReplyReaderOptions): ReplyReader {
  const { tokenizer, parser = plain } = options;
  const markers = new Set(options.markers);
  const ends = new Set(options.endTokenIds);
  const stream = createTextStream(tokenizer, { midText: true });
  const stops = createTextSearch(options.stop ?? []);
  let ended: ReplyReader["ended"];
  let over = false;

  const take = (text: string): ReplyEvent[] => {
    const step = stops.push(text);
    const events = parser.push(step.text);
    if (step.found === undefined) return events;
    ended = { by: "stop", text: step.found };
    return [...events, ...finish()];
  };
  const finish = (): ReplyEvent[] => {
    if (over) return [];
    over = true;
    if (ended?.by === "stop") return parser.end();
    // what is left of a character may, in theory, complete a stop text
    const step = stops.push(stream.end());
    if (step.found !== undefined) ended = { by: "stop", text: step.found };
    return [...parser.push(step.found === undefined ? step.text + stops.end() : step.text), ...parser.end()];
  };
  return {
    push(id) {
      if (over) return [];
      if (ends.has(id)) {
        ended = { by: "token" };
        return finish();
      }
      if (tokenizer.isSpecial(id) && !markers.has(tokenizer.idToToken(id) ?? "")) return [];
      return take(stream.push(id));
    },
    end: finish,
    get ended() {
      return ended;
    },
  };
}

/** Events put together. */
export function replyOf(events: Iterable<ReplyEvent>): Reply {
  let text = "";
  let reasoning = "";
  const toolCalls = [];
  for (const event of events) {
    if (event.type === "text") text += event.text;
    else if (event.type === "reasoning") reasoning += event.text;
    else toolCalls.push(event.call);
  }
  return { text, reasoning, toolCalls };
}
