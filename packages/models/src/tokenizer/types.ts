/**
 * The public types of tokenizers and of the files they are built from.
 */
import type { ChatMessage, ChatTemplateOptions } from "../chat/types.ts";

/**
 * Encodes text to token ids and decodes it. Synchronous and stateless.
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
  /** @param options.addSpecialTokens - add the tokens of the post-processor, for example a leading BOS. @defaultValue `true` */
  encode(text: string, options?: { readonly addSpecialTokens?: boolean }): number[];
  /**
   * The exact inverse of `encode` where one exists: spaces are not "cleaned up". Invalid UTF-8 becomes U+FFFD; unknown ids (an embedding may
   * have more rows than the tokenizer has tokens) decode to nothing.
   * @param options.skipSpecialTokens - leave out BOS, EOS, turn markers. @defaultValue `false`
   */
  decode(ids: ArrayLike<number>, options?: { readonly skipSpecialTokens?: boolean }): string;
  /**
   * Renders a conversation with the model's chat template: as token ids, or as text with `tokenize: false`.
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
  /** Whether the model has a chat template. */
  readonly hasChatTemplate: boolean;
  /** EOS ids: the tokenizer's first, then those of `generation_config.json` and `config.json`, without duplicates. */
  readonly eosTokenIds: readonly number[];
  readonly bosTokenId: number | undefined;
  /** All known ids are below this. A model's embedding may have more rows. */
  readonly vocabSize: number;
  tokenToId(token: string): number | undefined;
  idToToken(id: number): string | undefined;
  /** Whether an id is a special token (BOS, EOS, turn markers), which `skipSpecialTokens` leaves out. */
  isSpecial(id: number): boolean;
  /**
   * The UTF-8 bytes of one token, for tokenizers that decode token by token (byte-level, byte fallback); otherwise `undefined`. Used to
   * stream whole characters.
   */
  tokenBytes(id: number): Uint8Array | undefined;
}

/** The contents of a tokenizer's files, by name. Required is `tokenizer.json` or, for Kimi models, `tiktoken.model` with its settings. */
export interface TokenizerFiles {
  /** Empty for a model with a `tiktoken.model`. */
  readonly "tokenizer.json": string;
  /** Tokens with their ranks; used if `tokenizer_class` in `tokenizer_config.json` is `TikTokenTokenizer`. */
  readonly "tiktoken.model"?: string | undefined;
  readonly "tokenizer_config.json"?: string | undefined;
  readonly "generation_config.json"?: string | undefined;
  /** The model's configuration, which may list additional EOS ids. */
  readonly "config.json"?: string | undefined;
  readonly "chat_template.jinja"?: string | undefined;
}

/** File names of {@link TokenizerFiles}. */
export type TokenizerFileName = keyof TokenizerFiles;
