/**
 * The tokenizer of a model folder: `tokenizer.json` with `tokenizer_config.json`, `chat_template.jinja` and
 * `generation_config.json` where they exist.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { compileChatTemplate } from "../chat/chat-template.ts";
import { TokenizerError } from "../errors.ts";
import { readSmallText } from "../weights/weight-file.ts";
import { soundDefinition } from "./definition.ts";
import { tokenizerFromDefinition } from "./from-definition.ts";
import type { Tokenizer } from "./types.ts";

const LARGEST_TOKENIZER_BYTES = 256 * 1024 * 1024;
const LARGEST_SETTINGS_BYTES = 16 * 1024 * 1024;

type Settings = Readonly<Record<string, unknown>>;

/** @throws TokenizerError when there is none, or it cannot be honoured. */
export function tokenizerFromFolder(folder: string, config: Settings): Tokenizer {
  const path = join(folder, "tokenizer.json");
  if (!existsSync(path)) {
    throw new TokenizerError(`${folder} has no tokenizer.json`, {
      code: "no_tokenizer",
      ...(existsSync(join(folder, "tokenizer.model")) && {
        hint: "it has a tokenizer.model; AutoTokenizer.from_pretrained(...).save_pretrained(...) writes the tokenizer.json",
      }),
    });
  }
  const definition = soundDefinition(readJson(path, LARGEST_TOKENIZER_BYTES), path);
  const settings = readOptional(join(folder, "tokenizer_config.json"));
  const generation = readOptional(join(folder, "generation_config.json"));
  const specialTokens = specialTokensOf(settings);
  const idOf = (token: string | undefined): number | undefined => {
    if (token === undefined) return undefined;
    return definition.added_tokens.find(({ content }) => content === token)?.id;
  };
  const source = chatTemplateSource(folder, settings);
  return tokenizerFromDefinition({
    definition,
    origin: path,
    eosTokenIds: [generation["eos_token_id"], config["eos_token_id"], idOf(specialTokens["eos_token"])].flatMap(
      tokenIds,
    ),
    ...(source !== undefined && { chatTemplate: compileChatTemplate(source, specialTokens, folder) }),
  });
}

/** `eos_token_id` is a number, a list, or absent. */
function tokenIds(value: unknown): number[] {
  const list: unknown[] = Array.isArray(value) ? value : [value];
  return list.filter((id): id is number => typeof id === "number" && Number.isInteger(id) && id >= 0);
}

/** `bos_token` and its kin, given as text or as an object with `content`. */
function specialTokensOf(settings: Settings): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const [key, value] of Object.entries(settings)) {
    const text = typeof value === "object" && value !== null ? (value as { content?: unknown }).content : value;
    if (key.endsWith("_token") && typeof text === "string") tokens[key] = text;
  }
  return tokens;
}

/** A file of its own (newer models), one text, or several by name, of which "default" is for plain chat. */
function chatTemplateSource(folder: string, settings: Settings): string | undefined {
  const file = join(folder, "chat_template.jinja");
  if (existsSync(file)) return readSmallText(file, LARGEST_SETTINGS_BYTES);
  const value = settings["chat_template"];
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return undefined;
  const named = (value as { name?: unknown; template?: unknown }[]).find(({ name }) => name === "default");
  return typeof named?.template === "string" ? named.template : undefined;
}

function readOptional(path: string): Settings {
  if (!existsSync(path)) return {};
  const value = readJson(path, LARGEST_SETTINGS_BYTES);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Settings) : {};
}

function readJson(path: string, largestBytes: number): unknown {
  try {
    return JSON.parse(readSmallText(path, largestBytes));
  } catch (cause) {
    throw new TokenizerError(`${path}: ${(cause as Error).message}`, { cause });
  }
}
