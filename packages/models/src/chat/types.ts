/** Conversations as chat templates read them. */

/** One message of a conversation. */
export interface ChatMessage {
  readonly role: string;
  readonly content: unknown;
  /** Whatever else a template knows about (`tool_calls`, `name` …). */
  readonly [key: string]: unknown;
}

/** How a conversation becomes a prompt. */
export interface ChatTemplateOptions {
  /** End with the opening of the assistant's turn. @defaultValue `false` */
  readonly addGenerationPrompt?: boolean;
  /** Return token ids; `false` returns the text. @defaultValue `true` */
  readonly tokenize?: boolean;
  /** Tools that the model may call, as JSON schemas. */
  readonly tools?: readonly unknown[];
  /** Further variables of the template, for example `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}
