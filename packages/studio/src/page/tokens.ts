/**
 * Sampled tokens as they can be looked at: the text of each by its model's tokenizer, and how strongly it is coloured. Only what is needed
 * to show a token by itself: the pieces of `tokenizer.json`, whatever its algorithm.
 */
import { call } from "./api.ts";

export type Colouring = "logprob" | "advantage" | "kl" | "none";

/** What is known of a sampled token. */
export interface Judged {
  /** By the sampler. */
  readonly logprob: number | undefined;
  readonly advantage: number;
  /** The sampler's log-probability less the trainer's: its part of the estimated KL. */
  readonly kl: number | undefined;
}

/** Text of a token, by its id. */
export type Vocabulary = ReadonlyMap<number, string>;

/** Bytes that byte-level tokenizers write as other characters, as GPT-2 does. */
const byteOf = new Map<string, number>();
for (let byte = 0, next = 256; byte < 256; byte++) {
  const isItself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  byteOf.set(String.fromCodePoint(isItself ? byte : next++), byte);
}

interface TokenizerJson {
  readonly model?: { readonly vocab?: Readonly<Record<string, number>> | readonly (readonly [string, number])[] };
  readonly added_tokens?: readonly { readonly id: number; readonly content: string }[];
  readonly decoder?: unknown;
}

/** The texts of a tokenizer's tokens. A token that is a part of a character is shown by the mark of one that is none. */
export function readVocabulary(text: string): Vocabulary {
  const { model, added_tokens: added = [], decoder } = JSON.parse(text) as TokenizerJson;
  const pieces: [string, number][] = Array.isArray(model?.vocab)
    ? model.vocab.map(([piece], id) => [piece, id])
    : Object.entries((model?.vocab ?? {}) as Record<string, number>);
  const isByteLevel = JSON.stringify(decoder ?? null).includes("ByteLevel");
  const decode = new TextDecoder();
  const textOf = (piece: string): string => {
    if (!isByteLevel) return piece.replaceAll("\u2581", " ");
    const bytes = Array.from(piece, (sign) => byteOf.get(sign));
    return bytes.includes(undefined) ? piece : decode.decode(Uint8Array.from(bytes as number[]));
  };
  const found = new Map<number, string>();
  for (const [piece, id] of pieces) found.set(id, textOf(piece));
  for (const { id, content } of added) found.set(id, content);
  return found;
}

/** The vocabulary of a model that the server serves; without it, tokens are shown by their numbers. */
export async function loadVocabulary(model: string): Promise<Vocabulary | undefined> {
  const { files } = await call("getTokenizerFiles", { model }).catch(() => ({ files: {} as Record<string, string> }));
  const file = files["tokenizer.json"];
  return file === undefined ? undefined : readVocabulary(file);
}

/** The class that colours a token: its log-probability in four steps, or the sign and size of its advantage or KL in two each. */
export function colourOf(how: Colouring, { logprob, advantage, kl }: Judged): string {
  if (how === "logprob" && logprob !== undefined) return `sure-${Math.min(4, Math.max(0, Math.floor(-logprob)))}`;
  if (how === "advantage") return signed(advantage, 0, 0.5);
  // Where the trainer thinks less of a token than the sampler did, training on it is off.
  return how === "kl" && kl !== undefined ? signed(-kl, 0.02, 0.2) : "";
}

function signed(value: number, above: number, strong: number): string {
  if (!(Math.abs(value) > above)) return "";
  return `${value > 0 ? "gain" : "cost"}-${Math.abs(value) >= strong ? 2 : 1}`;
}

/** The class that colours a token of training data by its weight in the loss, of which the largest is given. */
export const weightColour = (weight: number, largest: number): string =>
  weight > 0 ? `gain-${weight >= largest / 2 ? 2 : 1}` : weight < 0 ? "cost-2" : "";
