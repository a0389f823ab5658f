/**
 * Converts sampled token ids to reply events as they arrive: decodes whole characters, drops special tokens, ends at the first stop
 * string, and passes the text to the parser of the model's family.
 */
import { createTextStream } from "../tokenizer/text-stream.ts";
import type { Tokenizer } from "../tokenizer/types.ts";
import type { ReplyParser } from "./reply-format.ts";
import { createTextSearch } from "./text-search.ts";
import type { Reply, ReplyEvent } from "./types.ts";

export interface ReplyReaderOptions {
  readonly tokenizer: Tokenizer;
  /** Parses the text. @defaultValue all output is plain text */
  readonly parser?: ReplyParser;
  /** Special tokens that are passed to the parser. */
  readonly markers?: readonly string[];
  /** Ids that end the reply; they are not part of it. */
  readonly endTokenIds: readonly number[];
  /** Stop strings; they end the reply and are not part of it. */
  readonly stop?: readonly string[];
}

/** Reads one reply. */
export interface ReplyReader {
  /** Adds the next token. Returns no events after the end of the reply. */
  push(id: number): ReplyEvent[];
  /** Call after the last token; returns the remaining events. */
  end(): ReplyEvent[];
  /** What ended the reply; undefined while it is still open. */
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
    // U+FFFD for an incomplete character can complete a stop string
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

/** Combines events into a whole reply. */
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
