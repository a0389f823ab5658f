/** Conversations as chat templates read them, and replies as they are read back. */

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

/** A function that the model may call, in the form that chat templates expect. */
export interface ChatTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    /** JSON schema of the arguments. */
    readonly parameters?: unknown;
  };
}

/** A call of a tool that the model wrote. */
export interface ToolCall {
  readonly name: string;
  /** The arguments as JSON text: an object, as the model wrote it. */
  readonly arguments: string;
}

/** A piece of a reply, in order. A tool call comes when all of it is there and it is known to be one. */
export type ReplyEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "tool_call"; readonly call: ToolCall };

/** A whole reply. */
export interface Reply {
  readonly text: string;
  /** What the model thought before it answered; empty when it did not. */
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
}
