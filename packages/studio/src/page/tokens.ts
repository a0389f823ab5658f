/**
 * Displays sampled tokens: the text of each token and its colour. Reads only the vocabulary of `tokenizer.json`, which is enough to display
 * single tokens for any tokenizer algorithm.
 */
import { call } from "./api.ts";

export type Colouring = "logprob" | "advantage" | "kl" | "none";

/** The scores of a sampled token. */
export interface TokenScores {
  /** The sampler's log-probability. */
  readonly logprob: number | undefined;
  readonly advantage: number;
  /** The sampler's log-probability minus the trainer's: the token's term of the estimated KL. */
  readonly kl: number | undefined;
}

/** Token texts by id. */
export type Vocabulary = ReadonlyMap<number, string>;

/** GPT-2's byte-level alphabet: the byte of each character. */
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

/** Reads the token texts from a `tokenizer.json`. A token that is part of a character becomes U+FFFD. */
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

/** Loads the vocabulary of a served model; if undefined, tokens are displayed as ids. */
export async function loadVocabulary(model: string): Promise<Vocabulary | undefined> {
  const { files } = await call("getTokenizerFiles", { model }).catch(() => ({ files: {} as Record<string, string> }));
  const file = files["tokenizer.json"];
  return file === undefined ? undefined : readVocabulary(file);
}

/** The CSS class of a token: five levels of log-probability, or the sign and two levels of its advantage or KL. */
export function colourOf(colouring: Colouring, { logprob, advantage, kl }: TokenScores): string {
  if (colouring === "logprob" && logprob !== undefined) return `sure-${Math.min(4, Math.max(0, Math.floor(-logprob)))}`;
  if (colouring === "advantage") return signed(advantage, 0, 0.5);
  // A token with a lower probability under the trainer than under the sampler is off-policy.
  return colouring === "kl" && kl !== undefined ? signed(-kl, 0.02, 0.2) : "";
}

function signed(value: number, above: number, strong: number): string {
  if (!(Math.abs(value) > above)) return "";
  return `${value > 0 ? "gain" : "cost"}-${Math.abs(value) >= strong ? 2 : 1}`;
}

/** The CSS class of a token of training data by its weight in the loss, relative to the largest weight. */
export const weightColour = (weight: number, largest: number): string =>
  weight > 0 ? `gain-${weight >= largest / 2 ? 2 : 1}` : weight < 0 ? "cost-2" : "";
