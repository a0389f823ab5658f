/**
 * Log-probabilities of drawn tokens, as OpenAI's two APIs write them. Those of a whole answer are written a piece at a time, with turns of
 * the event loop in between: each token may have twenty others beside it, and an answer has hundreds of thousands of them.
 */
import { yieldToEventLoop } from "@tinklet/engine";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { badField } from "../fields.ts";
import type { DrawnToken, Totals } from "../generate.ts";

/** Where a token has none, or an infinite one: as OpenAI writes what it does not know. */
const none = -9999;
const finite = (logprob: number): number => (Number.isFinite(logprob) ? logprob : none);

const encoder = new TextEncoder();

/** Log-probs that an answer asks for. */
export interface ScoresAsked {
  /** Choices, of all prompts together. */
  readonly choices: number;
  /** Tokens of prompts that are echoed, once for each choice. */
  readonly echoed?: number;
  /** Absent where the client leaves it to the server. */
  readonly maxTokens: number | undefined;
  /** Likeliest tokens beside each. */
  readonly top: number;
}

/** How many tokens each choice may have so that all log-probs are within the bound. @throws {@link Refusal} 400 when it has none */
export function scoredTokens({ choices, echoed = 0, maxTokens, top }: ScoresAsked, most: number): number | undefined {
  const each = Math.floor((most / (1 + top) - echoed) / choices);
  if (each >= (maxTokens ?? 1)) return maxTokens ?? each;
  const asked = (choices * (maxTokens ?? 1) + echoed) * (1 + top);
  throw badField(
    "logprobs",
    `choices × tokens × (1 + likeliest tokens), echoed prompts included, must be at most ${most}, got ${asked}; lower n, max_tokens or logprobs`,
  );
}

/** Log-probs that are written in one turn of the event loop: some ten milliseconds. */
const pieceScores = 4000;

/** The tokens in pieces, each in a turn of its own. */
async function* inPieces<T extends ScoredToken>(tokens: readonly T[]): AsyncGenerator<readonly T[]> {
  let [from, scores] = [0, 0];
  for (const [at, { top = [] }] of tokens.entries()) {
    scores += 1 + top.length;
    if (scores < pieceScores) continue;
    yield tokens.slice(from, at + 1);
    [from, scores] = [at + 1, 0];
    await yieldToEventLoop();
  }
  if (from < tokens.length) yield tokens.slice(from);
}

/** JSON of {@link chatLogprobs}. */
export async function chatLogprobsJson(tokenizer: Tokenizer, tokens: readonly DrawnToken[]): Promise<string> {
  const parts: string[] = [];
  for await (const piece of inPieces(tokens)) {
    parts.push(JSON.stringify(chatLogprobs(tokenizer, piece).content).slice(1, -1));
  }
  return `{"content":[${parts.join(",")}],"refusal":null}`;
}

/** JSON of {@link textLogprobs} in the making. */
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

  /** The same beginning, for another choice. */
  fork(): TextLogprobsJson {
    const copy = new TextLogprobsJson(this.#tokenizer);
    for (const [name, parts] of Object.entries(this.#lists)) copy.#lists[name as keyof TextLogprobs].push(...parts);
    copy.#offset = this.#offset;
    copy.#hasTop = this.#hasTop;
    return copy;
  }

  async add(tokens: readonly ScoredToken[]): Promise<void> {
    for await (const piece of inPieces(tokens)) {
      const lists = textLogprobs(this.#tokenizer, piece, this.#offset);
      this.#offset = lists.text_offset.at(-1)! + lists.tokens.at(-1)!.length;
      this.#hasTop ||= lists.top_logprobs !== null;
      for (const [name, parts] of Object.entries(this.#lists)) {
        const list = lists[name as keyof TextLogprobs] ?? piece.map(() => null);
        parts.push(JSON.stringify(list).slice(1, -1));
      }
    }
  }

  toString(): string {
    const lists = Object.entries(this.#lists).map(([name, parts]) => {
      const isNone = name === "top_logprobs" && !this.#hasTop;
      return `"${name}":${isNone ? "null" : `[${parts.join(",")}]`}`;
    });
    return `{${lists.join(",")}}`;
  }
}

/** Of `chat/completions`: one entry a token. */
export function chatLogprobs(
  tokenizer: Tokenizer,
  tokens: readonly DrawnToken[],
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
export type ScoredToken = Omit<DrawnToken, "logprob"> & { readonly logprob: number | undefined };

interface TextLogprobs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | undefined)[] | null;
  readonly text_offset: readonly number[];
}

/** Of `completions`: lists beside each other. `offset` is where the text of the first token stands. */
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

/** The tokens of a prompt with their scores. */
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
