/** Reads the sampling parameters that both APIs have, and converts them to those of the engine. */
import type { Chat } from "@tinklet/models/chat";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { omitUndefined } from "@tinklet/wire/options";
import { engineSeed } from "../../queue/engine-seed.ts";
import type { Api } from "../api.ts";
import { type Body, badField, numberField, objectField } from "./fields.ts";
import type { Generation } from "./generate.ts";
import type { NamedModel } from "./model-names.ts";

/** Largest value of a token count in a request; the context is the actual limit. */
const manyTokens = 10_000_000;

export const tokensField = (body: Body, name: string, least = 1): number | undefined =>
  numberField(body, name, { least, most: manyTokens, integer: true });

/** Number of samples of one prompt. */
export const countField = (api: Api, body: Body): number =>
  numberField(body, "n", { least: 1, most: api.limits.numSamples, integer: true }) ?? 1;

/** The parameters of the distribution, and the seed. */
export function samplingOf(body: Body): Generation["params"] {
  const { seed } = body;
  if (seed !== undefined && seed !== null && typeof seed !== "bigint" && !Number.isInteger(seed)) {
    throw badField("seed", "must be an integer");
  }
  const topP = numberField(body, "top_p", { least: 0, most: 1 });
  if (topP === 0) throw badField("top_p", "must be above 0, got 0");
  const topK = numberField(body, "top_k", { least: -1, most: manyTokens, integer: true });
  const minP = numberField(body, "min_p", { least: 0, most: 1 });
  const presencePenalty = numberField(body, "presence_penalty", { least: -2, most: 2 });
  const frequencyPenalty = numberField(body, "frequency_penalty", { least: -2, most: 2 });
  return {
    temperature: numberField(body, "temperature", { least: 0, most: 1000 }) ?? 1,
    seed: engineSeed((seed ?? undefined) as number | bigint | undefined),
    ...omitUndefined({ topP, topK, minP, presencePenalty, frequencyPenalty, logitBias: readBias(body["logit_bias"]) }),
  };
}

/** Entries of one `logit_bias`. */
const mostBiases = 1024;

/** Pairs of a token id and the number that is added to its logit. */
function readBias(value: unknown): (readonly [number, number])[] | undefined {
  if (value === undefined || value === null) return undefined;
  const entries = Object.entries(objectField(value, "logit_bias"));
  if (entries.length > mostBiases) {
    throw badField("logit_bias", `must have at most ${mostBiases} entries, got ${entries.length}`);
  }
  return entries.map(([token, bias]) => {
    const isToken = /^\d{1,9}$/.test(token);
    if (!isToken || typeof bias !== "number" || !(bias >= -100 && bias <= 100)) {
      throw badField("logit_bias", "must map token ids to numbers from -100 to 100");
    }
    return [Number(token), bias] as const;
  });
}

/**
 * The strings at which the engine ends a sequence: the client's stop strings, and the end-of-turn tokens that are not among the model's
 * end-of-sequence tokens.
 */
export function engineStops(
  stop: readonly string[],
  { tokenizer, chat }: { readonly tokenizer: Tokenizer; readonly chat: Chat },
  { served }: NamedModel,
): readonly string[] {
  const known = new Set(served.info.eosTokenIds);
  const endOfTurn = chat.endTokenIds.filter((id) => !known.has(id)).map((id) => tokenizer.idToToken(id));
  return [...stop, ...endOfTurn.filter((token) => token !== undefined)];
}
