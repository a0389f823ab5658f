/**
 * One parser for every family: reasoning first, then text mixed with tool calls, separated by a {@link ReplyGrammar}. Its time is linear
 * in the length of the reply, its result does not depend on how the reply is split, and unparsable calls become text.
 */
import type { ParserOptions, ReplyParser } from "./reply-format.ts";
import { createTextSearch, type TextSearch } from "./text-search.ts";
import type { ReplyEvent, ToolCall } from "./types.ts";

/** The result of pushing a chunk into a call body. */
export type BodyStep =
  | { readonly is: "unfinished" }
  | { readonly is: "calls"; readonly calls: readonly ToolCall[]; readonly rest: string }
  /** Not a call: everything from the marker on is text. */
  | { readonly is: "text"; readonly rest: string };

/** Parses the text after the marker that opens a call. */
export interface CallBody {
  push(piece: string): BodyStep;
  /** Call at the end of the reply; returns the calls if they are complete. */
  end(): readonly ToolCall[] | undefined;
  /** All text pushed so far. */
  readonly text: string;
}

/** The markers of a family. */
export interface ReplyGrammar {
  readonly reasoning?: { readonly opens: string; readonly closes: string };
  /** Marker that opens a call anywhere in the text. */
  readonly callOpens?: string;
  /** Optional marker that closes a call. */
  readonly callCloses?: string;
  /** First characters of a call without a marker, which may start the reply or follow another call. */
  readonly bareCalls?: string;
  /** Characters allowed between two bare calls besides white space, as the inside of a regular expression class. */
  readonly separators?: string;
  /** @param marked - whether the call was opened by `callOpens`. */
  readonly createBody: (options: ParserOptions, marked: boolean) => CallBody;
}

export function createReplyParser(grammar: ReplyGrammar, options: ParserOptions): ReplyParser {
  const { reasoning, callOpens, callCloses, bareCalls = "", separators = "" } = grammar;
  const leading = new RegExp(`^[\\s${separators}]+`);
  const hasTools = options.tools.length > 0;
  let events: ReplyEvent[] = [];
  const emit = (event: ReplyEvent) => void events.push(event);
  const thought = createWhiteSpaceBuffer((text) => emit({ type: "reasoning", text }), true);
  let answer = createWhiteSpaceBuffer((text) => emit({ type: "text", text }), false);
  const marks = hasTools ? [callOpens, callCloses].filter((mark) => mark !== undefined) : [];
  let mode: "beginning" | "reasoning" | "text" | "call" = options.startsInReasoning ? "reasoning" : "beginning";
  let mayReason = reasoning !== undefined && !options.startsInReasoning;
  let calls = 0;
  /** Whether only white space was seen since the last call. */
  let afterCall = false;
  let held = { white: "", bare: "" }; // undecided text where a bare call may start
  let search: TextSearch = createTextSearch(reasoning === undefined ? [] : [reasoning.closes]);
  let body: { readonly mark: string; readonly reader: CallBody } | undefined;

  const write = (text: string): void => {
    if (text.trim() !== "") afterCall = false;
    answer.write(text);
  };
  const toText = (): void => {
    mode = "text";
    search = createTextSearch(marks);
  };
  const toBeginning = (): void => {
    mode = "beginning";
    held = { white: "", bare: "" };
  };
  const toCall = (mark: string, marked: boolean): void => {
    mode = "call";
    body = { mark, reader: grammar.createBody(options, marked) };
  };
  const giveUp = (): void => {
    write(body!.mark + body!.reader.text);
    toText();
  };
  const accept = (found: readonly ToolCall[]): void => {
    answer.cut();
    for (const call of found) emit({ type: "tool_call", call });
    calls += found.length;
    afterCall = true;
    if (bareCalls === "") toText();
    else toBeginning();
  };

  const beginning = (piece: string): string => {
    if (held.bare === "") {
      const bare = piece.replace(calls > 0 ? leading : /^\s+/, "");
      held = { white: held.white + piece.slice(0, piece.length - bare.length), bare };
    } else held = { ...held, bare: held.bare + piece };
    const { white, bare } = held;
    const known = [mayReason ? reasoning?.opens : undefined, hasTools ? callOpens : undefined];
    if (bare === "" || known.some((mark) => mark !== undefined && mark !== bare && mark.startsWith(bare))) return "";
    if (mayReason && bare.startsWith(reasoning!.opens)) {
      mode = "reasoning";
      mayReason = false;
      return bare.slice(reasoning!.opens.length);
    }
    if (hasTools && bareCalls.includes(bare[0]!)) {
      toCall(white, false);
      return bare;
    }
    toText();
    return white + bare;
  };

  const step = (piece: string): string => {
    switch (mode) {
      case "beginning":
        return beginning(piece);
      case "reasoning": {
        const { text, found, rest } = search.push(piece);
        thought.write(text);
        if (found === undefined) return "";
        thought.cut();
        answer = createWhiteSpaceBuffer((out) => emit({ type: "text", text: out }), true);
        toBeginning();
        return rest;
      }
      case "text": {
        const { text, found, rest } = search.push(piece);
        write(text);
        if (found === callOpens && found !== undefined) toCall(found, true);
        else if (found !== undefined && !afterCall) write(found);
        return rest;
      }
      case "call": {
        const done = body!.reader.push(piece);
        if (done.is === "unfinished") return "";
        if (done.is === "calls") accept(done.calls);
        else giveUp();
        return done.rest;
      }
      default:
        return mode satisfies never;
    }
  };

  const finish = (): void => {
    if (mode === "call") {
      const found = body!.reader.end();
      if (found === undefined) giveUp();
      else accept(found);
    }
    if (mode === "reasoning") {
      thought.write(search.end());
      thought.flush();
    } else {
      write(mode === "text" ? search.end() : held.white + held.bare);
      answer.flush();
    }
  };

  const taken = (): ReplyEvent[] => {
    const out = events;
    events = [];
    return out;
  };
  return {
    push(text) {
      for (let rest = text; rest !== ""; ) rest = step(rest);
      return taken();
    },
    end() {
      finish();
      return taken();
    },
  };
}

/** Buffers white space before emitting text. */
interface WhiteSpaceBuffer {
  write(text: string): void;
  /** Drops the buffered white space and the leading white space of the next text. */
  cut(): void;
  /** Emits the buffered white space. */
  flush(): void;
}

/** Trailing white space is buffered, because around calls and after reasoning it belongs to the template and not to the content. */
function createWhiteSpaceBuffer(emit: (text: string) => void, dropsLeading: boolean): WhiteSpaceBuffer {
  let white = "";
  let atFront = dropsLeading;
  return {
    write(text) {
      const trimmedText = atFront ? text.trimStart() : text;
      if (trimmedText === "") return;
      atFront = false;
      const kept = trimmedText.trimEnd();
      if (kept === "") {
        white += trimmedText;
        return;
      }
      emit(white + kept);
      white = trimmedText.slice(kept.length);
    },
    cut() {
      white = "";
      atFront = true;
    },
    flush() {
      if (white !== "") emit(white);
      white = "";
    },
  };
}
