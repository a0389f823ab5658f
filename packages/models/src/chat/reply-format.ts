/** What a family of models is, for the reading of its replies. The families that are known are in `formats/`; more can be added. */
import type { ChatTool, ReplyEvent } from "./types.ts";

/** What a model's template writes for a few conversations, by which its family is told. Undefined where it refused. */
export interface TemplateProbe {
  /** A question without tools. */
  readonly plain: string | undefined;
  /** The same question with a tool. */
  readonly withTool: string | undefined;
  /** With the tool, its call, and what it returned. */
  readonly withCall: string | undefined;
  /** Whether the vocabulary has this token. */
  readonly hasToken: (token: string) => boolean;
}

/** What a parser is told about the request. */
export interface ParserOptions {
  /** Tools that were offered; without any, everything is text. */
  readonly tools: readonly ChatTool[];
  /** The prompt has opened the reasoning already. */
  readonly startsInReasoning: boolean;
}

/** Reads one reply, piece by piece. Never throws: what does not parse is text. */
export interface ReplyParser {
  push(text: string): ReplyEvent[];
  /** No more will come. */
  end(): ReplyEvent[];
}

/** How a family of models writes reasoning and calls of tools. */
export interface ReplyFormat {
  readonly name: string;
  /** Tokens that mean something to the parser although the tokenizer counts them as special; other special tokens are left out. */
  readonly markers: readonly string[];
  /** How reasoning is opened, where a template may do that at the end of the prompt. */
  readonly reasoningOpens?: string;
  /** The template wants ids of tool calls to be nine letters or digits. */
  readonly shortCallIds?: boolean;
  /** The template wants arguments of calls as JSON text; others write objects as JSON themselves. */
  readonly textArguments?: boolean;
  /** Whether a template is of this family. The first format of a list that says so is taken. */
  readonly isUsedBy: (probe: TemplateProbe) => boolean;
  readonly createParser: (options: ParserOptions) => ReplyParser;
}
