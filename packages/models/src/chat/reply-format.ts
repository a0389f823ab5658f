/** How to detect a model family and parse its replies. The known families are in `formats/`; callers can add more. */
import type { ChatTool, ReplyEvent } from "./types.ts";

/** A template's output for a few conversations, from which the family is detected. Undefined where the template raised an error. */
export interface TemplateProbe {
  /** A question without tools. */
  readonly plain: string | undefined;
  /** The same question with a tool. */
  readonly withTool: string | undefined;
  /** The question with the tool, a call of it, and its result. */
  readonly withCall: string | undefined;
  /** Whether the vocabulary has this token. */
  readonly hasToken: (token: string) => boolean;
}

/** The parts of the request that a parser needs. */
export interface ParserOptions {
  /** The offered tools; if empty, no text is parsed as a call. */
  readonly tools: readonly ChatTool[];
  /** Whether the prompt already opened the reasoning. */
  readonly startsInReasoning: boolean;
}

/** Parses one reply incrementally. Never throws: unparsable calls are emitted as text. */
export interface ReplyParser {
  push(text: string): ReplyEvent[];
  /** Call at the end of the reply; returns the remaining events. */
  end(): ReplyEvent[];
}

/** Opens a call whose rest is JSON, so that the rest can be decoded under a grammar. */
export interface CallOpening {
  /** The text before the arguments of the named tool or, without a name, before an object with `name` and `arguments`. */
  readonly textOf: (tool?: string) => string;
  /** Where the first call begins in the text of a reply that has one. */
  readonly startIn: (reply: string) => number;
}

/** A model family's syntax for reasoning and tool calls. */
export interface ReplyFormat {
  readonly name: string;
  /** Special tokens that the parser needs to see as text; all other special tokens are removed. */
  readonly markers: readonly string[];
  /** The text that opens reasoning, if a template may put it at the end of the prompt. */
  readonly reasoningOpens?: string;
  /** Whether the template requires tool call ids of nine letters or digits. */
  readonly shortCallIds?: boolean;
  /** Whether the template expects call arguments as a JSON string; other templates serialize objects themselves. */
  readonly textArguments?: boolean;
  /** How a call is opened, if what follows is JSON. Absent where the family does not write calls that way. */
  readonly callOpening?: CallOpening;
  /** Whether a template belongs to this family. The first matching format of a list is used. */
  readonly isUsedBy: (probe: TemplateProbe) => boolean;
  readonly createParser: (options: ParserOptions) => ReplyParser;
}
