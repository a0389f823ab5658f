/**
 * What a tokenizer is: text to ids and back, chat templates, and the files that it is made of. How it is built from them is the
 * business of the other files in this folder.
 */
import type { ChatMessage, ChatTemplateOptions } from "../chat/types.ts";

/**
 * Text to token ids and back. Synchronous; keeps no state between calls.
 *
 * @example
 * ```ts
 * const tokenizer = await trainer.getTokenizer();
 * const prompt = ModelInput.fromInts(
 *   tokenizer.applyChatTemplate([{ role: "user", content: "Hi" }], { addGenerationPrompt: true }),
 * );
 * ```
 */
export interface Tokenizer {
  /** @param options.addSpecialTokens - what the model's post-processor adds, for example a leading BOS. @defaultValue `true` */
  encode(text: string, options?: { readonly addSpecialTokens?: boolean }): number[];
  /**
   * The exact inverse where there is one: spaces are never "cleaned up". Bytes that are not UTF-8 become U+FFFD; ids that the
   * tokenizer does not know (an embedding may have more rows than it has tokens) add nothing.
   * @param options.skipSpecialTokens - leave out BOS, EOS, turn markers. @defaultValue `false`
   */
  decode(ids: ArrayLike<number>, options?: { readonly skipSpecialTokens?: boolean }): string;
  /**
   * A conversation as the model was trained to read it: token ids, or text with `tokenize: false`.
   * @throws an error of code `no_chat_template` or `chat_template_failed`; in the SDK, {@link TokenizerError} `chat_template`.
   */
  applyChatTemplate(
    messages: readonly ChatMessage[],
    options: ChatTemplateOptions & { readonly tokenize: false },
  ): string;
  applyChatTemplate(
    messages: readonly ChatMessage[],
    options?: ChatTemplateOptions & { readonly tokenize?: true },
  ): number[];
  /** Whether the model brought a chat template. */
  readonly hasChatTemplate: boolean;
  /** Ids that end a text: the tokenizer's own first, then those of `generation_config.json` and `config.json`, without repeats. */
  readonly eosTokenIds: readonly number[];
  readonly bosTokenId: number | undefined;
  /** Ids that the tokenizer knows are below this. A model's embedding may have more rows. */
  readonly vocabSize: number;
  tokenToId(token: string): number | undefined;
  idToToken(id: number): string | undefined;
  /** Special tokens (BOS, EOS, turn markers): what `skipSpecialTokens` leaves out. */
  isSpecial(id: number): boolean;
  /**
   * The UTF-8 bytes that one token adds to a text, where the tokenizer works so (byte-level, byte fallback); `undefined` where
   * it does not. Used to stream text without cutting a character in two.
   */
  tokenBytes(id: number): Uint8Array | undefined;
}

/** The contents of a tokenizer's files, by name. Only `tokenizer.json` is needed. */
export interface TokenizerFiles {
  readonly "tokenizer.json": string;
  readonly "tokenizer_config.json"?: string | undefined;
  readonly "generation_config.json"?: string | undefined;
  /** The model's configuration, which may know one more id that ends a text. */
  readonly "config.json"?: string | undefined;
  readonly "chat_template.jinja"?: string | undefined;
}

/** The names of those files. */
export type TokenizerFileName = keyof TokenizerFiles;
