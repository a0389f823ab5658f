/**
 * The engine's view of a tokenizer: text to ids and back, and chat templates. How it is built (from `tokenizer.json` or from
 * GGUF metadata) is the business of the other files in this folder.
 */

/** One message of a conversation, as chat templates read it. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  /** Whatever else a template knows about (`tool_calls`, `name` …). */
  readonly [key: string]: unknown;
}

export interface ChatTemplateOptions {
  /** End with the opening of the assistant's turn. @defaultValue false */
  readonly addGenerationPrompt?: boolean;
  /** Return ids instead of text. @defaultValue false */
  readonly tokenize?: boolean;
  /** Further variables of the template (`tools`, `enable_thinking` …). */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** Text to ids and back. Stateless and synchronous. */
export interface Tokenizer {
  /** @param options `addSpecialTokens` (default true): what the model's own post-processor adds, for example a leading BOS. */
  encode(text: string, options?: { addSpecialTokens?: boolean }): number[];
  /**
   * The exact inverse where there is one: spaces are never "cleaned up". Bytes that are not UTF-8 become U+FFFD; ids that the
   * tokenizer does not know (an embedding may have more rows than it has tokens) add nothing.
   */
  decode(ids: Int32Array | readonly number[], options?: { skipSpecialTokens?: boolean }): string;
  applyChatTemplate(messages: readonly ChatMessage[], options: ChatTemplateOptions & { tokenize: true }): number[];
  applyChatTemplate(messages: readonly ChatMessage[], options?: ChatTemplateOptions & { tokenize?: false }): string;
  applyChatTemplate(messages: readonly ChatMessage[], options?: ChatTemplateOptions): string | number[];
  /** Ids that end a text, from `generation_config.json`, `config.json` and the tokenizer's own, without repeats. */
  readonly eosTokenIds: readonly number[];
  /** Ids that the tokenizer knows are below this. A model's embedding may have more rows. */
  readonly vocabSize: number;
  /** False when the model brought no chat template; `applyChatTemplate` then throws. */
  readonly hasChatTemplate: boolean;
  idToToken(id: number): string | undefined;
  tokenToId(token: string): number | undefined;
  /** Special tokens (BOS, EOS, turn markers): what `skipSpecialTokens` leaves out. */
  isSpecial(id: number): boolean;
  /**
   * The UTF-8 bytes that one token adds to a text, where the tokenizer works so (byte-level, byte fallback); `undefined` where
   * it does not. Used to stream text without cutting a character in two.
   */
  tokenBytes(id: number): Uint8Array | undefined;
}
