/** Tasks on exports and stored traces: a client chooses their size, and its regular expressions. */
import { type Conversation, conversationsOf, promptKey, type SpanRow } from "../traces/conversations.ts";
import { searchTraces } from "../traces/search.ts";
import { bodyOf, readExport } from "../traces/stored-span.ts";
import { preferencePairs, trainingData } from "../traces/training-data.ts";

export const traceTasks = {
  /** Reads an export. @throws BadExport, ExportTooLarge */
  readExport,
  /** @throws SyntaxError for an invalid expression */
  searchTraces,
  trainingData,
  preferencePairs,
  /** The conversations of one trace. */
  conversations: (spans: readonly SpanRow[]): Conversation[] => conversationsOf(spans),
  /** The key of a call's prompt, and whether the call has an answer. */
  promptOf: (body: string): { readonly key: string; readonly hasAnswer: boolean } => {
    const read = bodyOf(body);
    return { key: promptKey(read), hasAnswer: read.output !== undefined };
  },
};
