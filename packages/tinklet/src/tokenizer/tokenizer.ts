/**
 * `Tokenizer`: text to token ids and back, and chat templates, over two optional packages that are loaded when the first
 * tokenizer is made (`@huggingface/tokenizers`, `@huggingface/jinja`). Works on the contents of files; where those come
 * from is `load.ts`. No `node:` imports.
 */

import { type JsonObject, soundDefinition } from "./definition.ts";
import { TokenizerError } from "./errors.ts";

/** One message of a conversation, as chat templates read it. */
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
  /** Ids that the tokenizer does not know add nothing. @param options.skipSpecialTokens - @defaultValue `false` */
  decode(ids: ArrayLike<number>, options?: { readonly skipSpecialTokens?: boolean }): string;
  /** @throws {@link TokenizerError} `chat_template` when the model brought no template or the template refuses. */
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
  /** Ids that end a text: the tokenizer's own first, then those of `generation_config.json`. */
  readonly eosTokenIds: readonly number[];
  readonly bosTokenId: number | undefined;
  /** How many ids the tokenizer knows, added ones included. A model's embedding may have more rows. */
  readonly vocabSize: number;
  tokenToId(token: string): number | undefined;
  idToToken(id: number): string | undefined;
}

/** The contents of a tokenizer's files. Only `tokenizer.json` is needed. */
export interface TokenizerFiles {
  readonly "tokenizer.json": string;
  readonly "tokenizer_config.json"?: string | undefined;
  readonly "generation_config.json"?: string | undefined;
  readonly "chat_template.jinja"?: string | undefined;
}

/** How the optional packages are loaded; a seam for tests. */
export interface TokenizerPeers {
  readonly tokenizers: () => Promise<typeof import("@huggingface/tokenizers")>;
  readonly jinja: () => Promise<typeof import("@huggingface/jinja")>;
}
export const installedPeers: TokenizerPeers = {
  tokenizers: () => import("@huggingface/tokenizers"),
  jinja: () => import("@huggingface/jinja"),
};

const installLine = "npm install @huggingface/tokenizers @huggingface/jinja";

async function loadPeer<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    throw new TokenizerError("missing_peer", `Tokenizers need the package ${name}, which is not installed.`, {
      cause,
      hint: `Run: ${installLine}`,
    });
  }
}

/**
 * Makes a tokenizer of its files.
 *
 * @param origin - what it is called in error messages.
 * @throws {@link TokenizerError} `missing_peer` with the line to type, or `tokenizer_invalid`.
 */
export async function tokenizerFromFiles(
  files: TokenizerFiles,
  origin: string,
  peers: TokenizerPeers = installedPeers,
): Promise<Tokenizer> {
  const definition = soundDefinition(parsed(files["tokenizer.json"], `${origin}: tokenizer.json`), origin);
  const config = parsed(files["tokenizer_config.json"] ?? "{}", `${origin}: tokenizer_config.json`);
  const generation = parsed(files["generation_config.json"] ?? "{}", `${origin}: generation_config.json`);
  const { Tokenizer: Library } = await loadPeer("@huggingface/tokenizers", peers.tokenizers);
  const library = built(() => new Library(definition, config), origin);
  const templates = chatTemplates(files["chat_template.jinja"], config);
  // Loaded now, so that applyChatTemplate can be synchronous; if it is missing, only applyChatTemplate needs to fail.
  const jinja =
    templates.size === 0 ? undefined : await loadPeer("@huggingface/jinja", peers.jinja).catch((error) => error);
  const special = specialTokens(config);
  const compiled = new Map<string, import("@huggingface/jinja").Template>();

  const render = (messages: readonly ChatMessage[], options: ChatTemplateOptions): string => {
    if (jinja instanceof Error) throw jinja;
    const name = options.tools !== undefined && templates.has("tool_use") ? "tool_use" : "default";
    const source = templates.get(name);
    if (jinja === undefined || source === undefined) {
      throw new TokenizerError("chat_template", `${origin} brings no chat template.`, {
        hint: "It is probably a base model: write the prompt yourself and use encode().",
      });
    }
    try {
      const template = compiled.get(name) ?? new jinja.Template(source);
      compiled.set(name, template);
      return template.render({
        ...special,
        documents: null, // Python passes these even when there are none, and templates test for them
        ...options.variables,
        tools: options.tools ?? null,
        messages,
        add_generation_prompt: options.addGenerationPrompt ?? false,
      });
    } catch (cause) {
      const said = cause instanceof Error ? cause.message : String(cause);
      throw new TokenizerError("chat_template", `${origin}: the chat template refused the messages: ${said}`, {
        cause,
      });
    }
  };
  const encode = (text: string, options: { readonly addSpecialTokens?: boolean } = {}): number[] =>
    library.encode(text, { add_special_tokens: options.addSpecialTokens ?? true }).ids;
  const idOf = (token: string | undefined) => (token === undefined ? undefined : library.token_to_id(token));

  return {
    encode,
    decode(ids, options = {}) {
      const known = Array.from(ids).filter((id) => library.id_to_token(id) !== undefined);
      if (known.length === 0) return ""; // the library refuses an empty list
      return library.decode(known, {
        skip_special_tokens: options.skipSpecialTokens ?? false,
        clean_up_tokenization_spaces: config["clean_up_tokenization_spaces"] === true,
      });
    },
    applyChatTemplate(messages: readonly ChatMessage[], options: ChatTemplateOptions = {}) {
      const text = render(messages, options);
      // The template writes special tokens itself; adding them again would double the BOS.
      return (options.tokenize === false ? text : encode(text, { addSpecialTokens: false })) as never;
    },
    hasChatTemplate: templates.size > 0,
    eosTokenIds: unique([idOf(special["eos_token"]), ...[generation["eos_token_id"]].flat()]),
    bosTokenId: idOf(special["bos_token"]),
    vocabSize: library.get_vocab(true).size,
    tokenToId: idOf,
    idToToken: (id) => library.id_to_token(id),
  };
}

function parsed(text: string, origin: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  } catch (cause) {
    throw new TokenizerError("tokenizer_invalid", `${origin} is not JSON.`, { cause });
  }
  throw new TokenizerError("tokenizer_invalid", `${origin} is not a JSON object.`);
}

function built<T>(make: () => T, origin: string): T {
  try {
    return make();
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    throw new TokenizerError("tokenizer_invalid", `${origin}: the tokenizer cannot be built: ${said}`, { cause });
  }
}

/** Templates by name; a file of its own wins over the configuration. */
function chatTemplates(file: string | undefined, config: JsonObject): ReadonlyMap<string, string> {
  if (file !== undefined) return new Map([["default", file]]);
  const given = config["chat_template"];
  if (typeof given === "string") return new Map([["default", given]]);
  if (!Array.isArray(given)) return new Map();
  return new Map(given.map(({ name, template }) => [String(name), String(template)]));
}

/** `bos_token` and its like, which are texts or objects with a `content`. */
function specialTokens(config: JsonObject): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const [key, value] of Object.entries(config)) {
    if (!key.endsWith("_token")) continue;
    const content = typeof value === "object" && value !== null ? (value as JsonObject)["content"] : value;
    if (typeof content === "string") found[key] = content;
  }
  return found;
}

const unique = (ids: readonly unknown[]): number[] =>
  [...new Set(ids)].filter((id): id is number => typeof id === "number");
