/**
 * Log-probabilities of tokens in the forms of OpenAI's two endpoints. For a complete response they are serialized in chunks and yield to the
 * event loop after each, because a response may have hundreds of thousands of them.
 */
import { yieldToEventLoop } from "@tinklet/engine";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { badField } from "../fields.ts";
import type { SampledToken, Totals } from "../generate.ts";

/** OpenAI's value for a missing log-prob; also used for infinite ones, which JSON cannot represent. */
const missing = -9999;
const finite = (logprob: number): number => (Number.isFinite(logprob) ? logprob : missing);

const encoder = new TextEncoder();

/** The size of the log-probs that a request asks for. */
export interface RequestedScores {
  /** Choices of all prompts together. */
  readonly choices: number;
  /** Echoed prompt tokens, of all choices together. */
  readonly echoed?: number;
  /** Tokens per choice; `undefined` if the client does not limit them. */
  readonly maxTokens: number | undefined;
  /** Most likely tokens per token. */
  readonly top: number;
}

/** Tokens per choice for which all log-probs are within the limit. @throws {@link Refusal} 400 when the request exceeds it */
export function scoredTokens(
  { choices, echoed = 0, maxTokens, top }: RequestedScores,
  most: number,
): number | undefined {
  const each = Math.floor((most / (1 + top) - echoed) / choices);
  if (each >= (maxTokens ?? 1)) return maxTokens ?? each;
  const asked = (choices * (maxTokens ?? 1) + echoed) * (1 + top);
  throw badField(
    "logprobs",
    `choices × tokens × (1 + top log-probs), echoed prompts included, must be at most ${most}, got ${asked}; lower n, max_tokens or logprobs`,
  );
}

/** Log-probs that are serialized without yielding to the event loop: some ten milliseconds. */
const chunkScores = 4000;

/** The tokens in chunks; yields to the event loop after each. */
async function* inChunks<T extends ScoredToken>(tokens: readonly T[]): AsyncGenerator<readonly T[]> {
  let [from, scores] = [0, 0];
  for (const [at, { top = [] }] of tokens.entries()) {
    scores += 1 + top.length;
    if (scores < chunkScores) continue;
    yield tokens.slice(from, at + 1);
    [from, scores] = [at + 1, 0];
    await yieldToEventLoop();
  }
  if (from < tokens.length) yield tokens.slice(from);
}

/** JSON of {@link chatLogprobs}. */
export async function chatLogprobsJson(tokenizer: Tokenizer, tokens: readonly SampledToken[]): Promise<string> {
  const parts: string[] = [];
  for await (const chunk of inChunks(tokens)) {
    parts.push(JSON.stringify(chatLogprobs(tokenizer, chunk).content).slice(1, -1));
  }
  return `{"content":[${parts.join(",")}],"refusal":null}`;
}

/** Builds the JSON of {@link textLogprobs} from successive tokens. */
export class TextLogprobsJson {
  readonly #tokenizer: Tokenizer;
  readonly #lists: Record<keyof TextLogprobs, string[]> = {
    tokens: [],
    token_logprobs: [],
    top_logprobs: [],
    text_offset: [],
  };
  #offset = 0;
  #hasTop = false;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** A copy of the current state, for another choice of the same prompt. */
  fork(): TextLogprobsJson {
    const copy = new TextLogprobsJson(this.#tokenizer);
    for (const [name, parts] of Object.entries(this.#lists)) copy.#lists[name as keyof TextLogprobs].push(...parts);
    copy.#offset = this.#offset;
    copy.#hasTop = this.#hasTop;
    return copy;
  }

  async add(tokens: readonly ScoredToken[]): Promise<void> {
    for await (const chunk of inChunks(tokens)) {
      const lists = textLogprobs(this.#tokenizer, chunk, this.#offset);
      this.#offset = lists.text_offset.at(-1)! + lists.tokens.at(-1)!.length;
      this.#hasTop ||= lists.top_logprobs !== null;
      for (const [name, parts] of Object.entries(this.#lists)) {
        const list = lists[name as keyof TextLogprobs] ?? chunk.map(() => null);
        parts.push(JSON.stringify(list).slice(1, -1));
      }
    }
  }

  toString(): string {
    const lists = Object.entries(this.#lists).map(([name, parts]) => {
      const isAbsent = name === "top_logprobs" && !this.#hasTop;
      return `"${name}":${isAbsent ? "null" : `[${parts.join(",")}]`}`;
    });
    return `{${lists.join(",")}}`;
  }
}

/** The `logprobs` of `chat/completions`: one entry per token. */
export function chatLogprobs(
  tokenizer: Tokenizer,
  tokens: readonly SampledToken[],
): { readonly content: readonly object[]; readonly refusal: null } {
  const entry = (id: number, logprob: number) => {
    const token = tokenizer.decode([id]);
    return { token, logprob: finite(logprob), bytes: Array.from(tokenizer.tokenBytes(id) ?? encoder.encode(token)) };
  };
  return {
    content: tokens.map(({ id, logprob, top = [] }) => ({
      ...entry(id, logprob),
      top_logprobs: top.map(([other, its]) => entry(other, its)),
    })),
    refusal: null,
  };
}

/** A token of a prompt or a completion; the first of a prompt has no log-prob. */
export type ScoredToken = Omit<SampledToken, "logprob"> & { readonly logprob: number | undefined };

interface TextLogprobs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | undefined)[] | null;
  readonly text_offset: readonly number[];
}

/** The `logprobs` of `completions`: parallel arrays. `offset` is the position of the first token in the text. */
export function textLogprobs(tokenizer: Tokenizer, tokens: readonly ScoredToken[], offset: number): TextLogprobs {
  const texts = tokens.map(({ id }) => tokenizer.decode([id]));
  let at = offset;
  return {
    tokens: texts,
    token_logprobs: tokens.map(({ logprob }) => (logprob === undefined ? null : finite(logprob))),
    top_logprobs: tokens.some(({ top }) => top !== undefined)
      ? tokens.map(
          ({ top }) => top && Object.fromEntries(top.map(([id, its]) => [tokenizer.decode([id]), finite(its)])),
        )
      : null,
    text_offset: texts.map((text) => {
      at += text.length;
      return at - text.length;
    }),
  };
}

/** The tokens of a prompt with their log-probs. */
export function promptTokens(
  prompt: Iterable<number>,
  { promptLogprobs: scores, promptTop: table }: Totals,
): ScoredToken[] {
  if (scores === undefined) return [];
  return Array.from(prompt, (id, at) => {
    if (at === 0) return { id, logprob: undefined };
    const cells = table === undefined ? [] : Array.from({ length: table.k }, (_, i) => at * table.k + i);
    const top = cells.map((cell) => [table!.tokenIds[cell]!, table!.logprobs[cell]!] as const);
    return { id, logprob: scores[at]!, ...(table === undefined ? {} : { top }) };
  });
}
