/**
 * Builds a tokenizer from its files: `tokenizer.json`, the settings files and the chat templates. Every tokenizer is built here; one from a
 * GGUF file skips the JSON parsing. No `node:` imports.
 */
import { createChatTemplate } from "../chat/chat-template.ts";
import { endOfTextIds } from "../config/end-of-text.ts";
import { TokenizerError } from "../errors.ts";
import { normalizeDefinition } from "./definition.ts";
import { tokenizerFromDefinition } from "./from-definition.ts";
import { tokenizerFromTiktoken } from "./from-tiktoken.ts";
import { tiktokenClass } from "./is-tiktoken.ts";
import type { Tokenizer, TokenizerFileName, TokenizerFiles } from "./types.ts";

type Settings = Readonly<Record<string, unknown>>;

/** The parsed files of a tokenizer. */
export interface TokenizerParts {
  /** `tokenizer.json`, not yet validated. */
  readonly definition: unknown;
  /** `tokenizer_config.json`. */
  readonly settings: Settings;
  /** `generation_config.json`. */
  readonly generation: Settings;
  /** `config.json` of the model. */
  readonly config: Settings;
  /** `chat_template.jinja`; takes precedence over the templates in `settings`. */
  readonly template?: string | undefined;
}

/**
 * Builds a tokenizer from the contents of its files.
 *
 * @param origin - name of the model or folder, shown in error messages.
 * @throws TokenizerError if a file is malformed or uses a feature that cannot be reproduced exactly.
 *
 * @example
 * ```ts
 * const tokenizer = tokenizerFromFiles({ "tokenizer.json": text }, "my tokenizer");
 * tokenizer.decode(tokenizer.encode("Hello")); // "Hello"
 * ```
 */
export function tokenizerFromFiles(files: TokenizerFiles, origin: string): Tokenizer {
  const parsed = (name: TokenizerFileName): Settings => {
    try {
      const value: unknown = JSON.parse(files[name] ?? "{}");
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Settings;
    } catch (cause) {
      throw new TokenizerError(`${origin}: ${name} is not JSON: ${(cause as Error).message}`, { cause });
    }
    throw new TokenizerError(`${origin}: ${name} must be a JSON object`);
  };
  const settings = parsed("tokenizer_config.json");
  const model = files["tiktoken.model"];
  if (model !== undefined && settings["tokenizer_class"] === tiktokenClass) {
    const [generation, config] = [parsed("generation_config.json"), parsed("config.json")];
    const specialTokens = specialTokensOf(settings);
    const templates = chatTemplatesOf(files["chat_template.jinja"], settings);
    return tokenizerFromTiktoken({
      model,
      settings,
      specialTokens,
      origin,
      eosTokenIds: (eosId) => endOfTextIds(eosId, generation["eos_token_id"], config["eos_token_id"]),
      hasChatTemplate: templates.size > 0,
      chatTemplate: createChatTemplate({ templates, specialTokens, origin }),
    });
  }
  return tokenizerFromParts(
    {
      definition: parsed("tokenizer.json"),
      settings,
      generation: parsed("generation_config.json"),
      config: parsed("config.json"),
      template: files["chat_template.jinja"],
    },
    origin,
  );
}

/** Like {@link tokenizerFromFiles}, from parsed files. */
export function tokenizerFromParts(parts: TokenizerParts, origin: string): Tokenizer {
  const { settings, generation, config } = parts;
  const definition = normalizeDefinition(parts.definition, origin);
  const specialTokens = specialTokensOf(settings);
  const vocabulary = definition.model["vocab"] as Record<string, number>;
  const idOf = (token: string | undefined): number | undefined => {
    if (token === undefined) return undefined;
    const added = definition.added_tokens.find(({ content }) => content === token);
    return added?.id ?? (Object.hasOwn(vocabulary, token) ? vocabulary[token] : undefined);
  };
  const templates = chatTemplatesOf(parts.template, settings);
  return tokenizerFromDefinition({
    definition,
    origin,
    eosTokenIds: endOfTextIds(idOf(specialTokens["eos_token"]), generation["eos_token_id"], config["eos_token_id"]),
    bosTokenId: idOf(specialTokens["bos_token"]),
    hasChatTemplate: templates.size > 0,
    chatTemplate: createChatTemplate({ templates, specialTokens, origin }),
  });
}

/** `bos_token` and the other `*_token` settings, given as a string or as an object with `content`. */
export function specialTokensOf(settings: Settings): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const [key, value] of Object.entries(settings)) {
    const text = typeof value === "object" && value !== null ? (value as { content?: unknown }).content : value;
    if (key.endsWith("_token") && typeof text === "string") tokens[key] = text;
  }
  return tokens;
}

/** The templates of a model: a separate file (newer models), one string, or several by name, of which "default" is for plain chat. */
export function chatTemplatesOf(file: string | undefined, settings: Settings): ReadonlyMap<string, string> {
  if (file !== undefined) return new Map([["default", file]]);
  const templates = settings["chat_template"];
  if (typeof templates === "string") return new Map([["default", templates]]);
  if (!Array.isArray(templates)) return new Map();
  const named = templates as { name?: unknown; template?: unknown }[];
  return new Map(
    named.flatMap(({ name, template }) =>
      typeof name === "string" && typeof template === "string" ? [[name, template] as const] : [],
    ),
  );
}
