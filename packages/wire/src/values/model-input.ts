/**
 * `ModelInput`: the input of a model, as a list of chunks (text tokens, images, audio features). Immutable; every method returns a new
 * object. Contains the chunks' JSON codecs; their protobuf form is in `proto/tensors.ts`.
 */

import { describe, isPlainObject } from "../describe.ts";
import { InvalidInputError } from "../errors.ts";
import {
  at,
  bytes,
  custom,
  type Field,
  FieldProblem,
  int,
  list,
  literal,
  oneOf,
  optional,
  string,
} from "../schema/fields.ts";
import { type Message, message } from "../schema/message.ts";

/** Token ids. */
export type TokenIds = readonly number[] | Int32Array;

/** Text as token ids. */
export interface EncodedTextChunk {
  readonly type: "encoded_text";
  readonly tokens: TokenIds;
}

/** An image, as the bytes of its file. */
export interface ImageChunk {
  readonly type: "image";
  readonly data: Uint8Array;
  readonly format: "png" | "jpeg";
  /** Number of positions it takes; the service checks it. Needed for `length`. */
  readonly expectedTokens?: number;
}

/** An image that the service downloads. Only for sampling, not for training data. */
export interface ImageAssetPointerChunk {
  readonly type: "image_asset_pointer";
  readonly format: "png" | "jpeg";
  readonly location: string;
  readonly expectedTokens?: number;
}

/** Audio features, as a serialised tensor container. */
export interface DmelChunk {
  readonly type: "dmel";
  readonly dmel: Uint8Array;
}

/** A chunk of a model's input, discriminated by `type`. */
export type ModelInputChunk = EncodedTextChunk | ImageChunk | ImageAssetPointerChunk | DmelChunk;

const int32 = (value: number) => (value | 0) === value;

/** Checks token ids and returns them; the error names the position. */
function tokenIds(value: unknown): TokenIds {
  if (value instanceof Int32Array) return value;
  if (!Array.isArray(value)) throw new FieldProblem(`must be an array of token ids, not ${describe(value)}`);
  for (let i = 0; i < value.length; i++) {
    if (typeof value[i] !== "number" || !int32(value[i] as number)) {
      const problem = new FieldProblem(`must be a token id (an integer of 32 bits), not ${describe(value[i])}`);
      problem.path.unshift(i);
      throw problem;
    }
  }
  return value as number[];
}

const tokens = (): Field<TokenIds> =>
  custom<TokenIds>(
    { type: "array", items: { type: "integer" } },
    (wire) => Int32Array.from(tokenIds(wire)),
    (value) => Array.from(tokenIds(value)),
  );

export const EncodedTextChunk = message<EncodedTextChunk, "type">("EncodedTextChunk", {
  tokens: tokens(),
  type: literal("encoded_text"),
});
export const ImageChunk = message<ImageChunk, "type">("ImageChunk", {
  data: bytes(),
  format: oneOf("png", "jpeg"),
  expectedTokens: optional(int()),
  type: literal("image"),
});
export const ImageAssetPointerChunk = message<ImageAssetPointerChunk, "type">("ImageAssetPointerChunk", {
  format: oneOf("png", "jpeg"),
  location: string(),
  expectedTokens: optional(int()),
  type: literal("image_asset_pointer"),
});
export const DmelChunk = message<DmelChunk, "type">("DmelChunk", { dmel: bytes(), type: literal("dmel") });

const chunkMessages = {
  encoded_text: EncodedTextChunk,
  image: ImageChunk,
  image_asset_pointer: ImageAssetPointerChunk,
  dmel: DmelChunk,
} as const;

/** The kind of a chunk on the wire: its `type`, or, since older clients omit it, inferred from its fields. */
function chunkType(wire: unknown): string {
  if (!isPlainObject(wire)) throw new FieldProblem(`must be an object, not ${describe(wire)}`);
  if (typeof wire["type"] === "string") return wire["type"];
  const guess =
    "tokens" in wire ? "encoded_text" : "location" in wire ? "image_asset_pointer" : "dmel" in wire ? "dmel" : "image";
  return guess;
}

function chunkMessage(type: unknown): Message<ModelInputChunk> {
  const found = typeof type === "string" && Object.hasOwn(chunkMessages, type);
  if (!found) {
    const problem = new FieldProblem(`must be one of ${Object.keys(chunkMessages).join(", ")}, not ${describe(type)}`);
    problem.path.unshift("type");
    throw problem;
  }
  return chunkMessages[type as ModelInputChunk["type"]] as unknown as Message<ModelInputChunk>;
}

const chunk = custom<ModelInputChunk>(
  {
    type: "union",
    options: Object.values(chunkMessages).map((item) => ({ type: "message" as const, name: item.name })),
  },
  (wire) => chunkMessage(chunkType(wire)).field.fromWire(wire),
  (value) => {
    if (!isPlainObject(value)) throw new FieldProblem(`must be a chunk, not ${describe(value)}`);
    return chunkMessage((value as ModelInputChunk).type).field.toWire(value);
  },
);
const chunks = list(chunk);

/** Every value that is accepted as a model's input: token ids, or a {@link ModelInput}. */
export type ModelInputLike = ModelInput | readonly number[] | Int32Array | Uint32Array | Uint16Array;

/** The part of a tokenizer that {@link ModelInput.fromText} uses. */
export interface TextEncoderLike {
  encode(text: string): ArrayLike<number>;
}

/**
 * A model's input.
 *
 * @example
 * ```ts
 * const prompt = ModelInput.fromInts(tokenizer.encode("Once upon a time"));
 * const longer = prompt.appendInt(42);
 * ```
 */
export class ModelInput {
  /** Text, images and audio, in the order in which the model reads them. */
  readonly chunks: readonly ModelInputChunk[];

  /** @throws {@link InvalidInputError} when a chunk is not one of the known kinds. */
  constructor(chunks: readonly ModelInputChunk[]) {
    if (!Array.isArray(chunks)) throw new InvalidInputError("chunks", `must be an array, not ${describe(chunks)}`);
    this.chunks = Object.freeze([...chunks]);
  }

  /**
   * Converts token ids to an input; returns an input unchanged.
   *
   * @throws {@link InvalidInputError} naming `field` for any other value.
   */
  static from(value: ModelInputLike, field = "modelInput"): ModelInput {
    if (value instanceof ModelInput) return value;
    if (Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))) {
      return new ModelInput([{ type: "encoded_text", tokens: copyTokens(value as ArrayLike<number>, field) }]);
    }
    throw new InvalidInputError(field, `must be token ids or a ModelInput, not ${describe(value)}`, {
      hint: "Pass an array of token ids, or ModelInput.fromText(text, { tokenizer }).",
    });
  }

  /** One text chunk of these token ids. */
  static fromInts(tokens: ArrayLike<number>): ModelInput {
    return new ModelInput([{ type: "encoded_text", tokens: copyTokens(tokens, "tokens") }]);
  }

  /** Text, encoded with the caller's tokenizer. */
  static fromText(text: string, { tokenizer }: { readonly tokenizer: TextEncoderLike }): ModelInput {
    return ModelInput.fromInts(tokenizer.encode(text));
  }

  /** An input without chunks. */
  static empty(): ModelInput {
    return new ModelInput([]);
  }

  /** All token ids in order. @throws {@link InvalidInputError} when a chunk is not text. */
  toInts(): number[] {
    const out: number[] = [];
    for (const [i, item] of this.chunks.entries()) {
      if (item.type !== "encoded_text") {
        throw new InvalidInputError(`chunks[${i}]`, `is a chunk of type ${item.type}, which has no token ids`);
      }
      for (let t = 0; t < item.tokens.length; t++) out.push(item.tokens[t]!);
    }
    return out;
  }

  /** Whether all chunks are text. */
  get isText(): boolean {
    return this.chunks.every(({ type }) => type === "encoded_text");
  }

  /** Number of tokens: those of the text plus `expectedTokens` of images. Audio and images without it count as 0. Never throws. */
  get tokenCount(): number {
    let count = 0;
    for (const item of this.chunks) {
      if (item.type === "encoded_text") count += item.tokens.length;
      else if (item.type !== "dmel") count += item.expectedTokens ?? 0;
    }
    return count;
  }

  /** A copy that does not share memory. */
  copy(): ModelInput {
    return new ModelInput(
      this.chunks.map((item) => {
        if (item.type === "encoded_text") return { ...item, tokens: item.tokens.slice() };
        if (item.type === "image") return { ...item, data: new Uint8Array(item.data) };
        return item.type === "dmel" ? { ...item, dmel: new Uint8Array(item.dmel) } : { ...item };
      }),
    );
  }

  /** Number of positions of the input. @throws {@link InvalidInputError} for an image without `expectedTokens`. */
  get length(): number {
    return this.chunks.reduce((sum, item, i) => sum + chunkLength(item, `chunks[${i}]`), 0);
  }

  /** A new input with a chunk added at the end. */
  append(item: ModelInputChunk): ModelInput {
    return new ModelInput([...this.chunks, item]);
  }

  /** A new input with one token added at the end, as a separate chunk. */
  appendInt(token: number): ModelInput {
    return this.append({ type: "encoded_text", tokens: copyTokens([token], "token") });
  }

  /** The codec of this class, for the contract. */
  static readonly message: Message<ModelInput> = modelInputMessage();

  /** A plain object, for `JSON.stringify`. */
  toJSON(): unknown {
    return ModelInput.message.encode(this);
  }
}

/** Converts token ids to an Int32Array; returns an Int32Array unchanged. */
export function int32Tokens(tokens: ArrayLike<number>, field: string): Int32Array {
  return tokens instanceof Int32Array ? tokens : copyTokens(tokens, field);
}

function copyTokens(tokens: ArrayLike<number>, field: string): Int32Array {
  if (tokens instanceof Int32Array) return tokens.slice();
  if (typeof tokens !== "object" || tokens === null || typeof tokens.length !== "number") {
    throw new InvalidInputError(field, `must be an array of token ids, not ${describe(tokens)}`);
  }
  const out = new Int32Array(tokens.length);
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    if (typeof token !== "number" || !int32(token)) {
      throw new InvalidInputError(
        `${field}[${i}]`,
        `must be a token id (an integer of 32 bits), not ${describe(token)}`,
      );
    }
    out[i] = token;
  }
  return out;
}

function chunkLength(item: ModelInputChunk, field: string): number {
  switch (item.type) {
    case "encoded_text":
      return item.tokens.length;
    case "image":
    case "image_asset_pointer":
      if (item.expectedTokens === undefined) {
        throw new InvalidInputError(`${field}.expectedTokens`, "is needed to know the length of an image");
      }
      return item.expectedTokens;
    case "dmel":
      return firstDimension(item.dmel, field);
  }
}

/**
 * The first dimension in the header of a tensor container. The header has an optional marker 254 (constant tensor), a dtype byte 0..7,
 * the rank, and each dimension as unsigned LEB128.
 */
export function firstDimension(container: Uint8Array, field = "dmel"): number {
  const fail = (problem: string): never => {
    throw new InvalidInputError(`${field}.dmel`, problem);
  };
  let position = 0;
  const byte = (): number => (position < container.length ? container[position++]! : fail("is truncated"));
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      if (shift > 63) return fail("has a number of more than ten bytes");
      const next = byte();
      value += (next & 0x7f) * 2 ** shift;
      if (next < 0x80) return Number.isSafeInteger(value) ? value : fail("has a dimension beyond 2^53");
    }
  };
  if (container.length === 0) fail("is empty");
  let dtype = byte();
  if (dtype === 254) dtype = byte();
  if (dtype > 7) fail(`has the unknown element type ${dtype}`);
  const rank = varint();
  if (rank === 0) fail("has no dimensions");
  const first = varint();
  for (let i = 1; i < rank; i++) varint(); // check that the header is complete
  return first;
}

function modelInputMessage(): Message<ModelInput> {
  const raw = message<{ readonly chunks: readonly ModelInputChunk[] }>("ModelInput", { chunks });
  return {
    name: raw.name,
    fields: raw.fields,
    encode: (value) => {
      if (!(value instanceof ModelInput)) {
        throw new InvalidInputError("ModelInput", `must be a ModelInput, not ${describe(value)}`);
      }
      return raw.encode({ chunks: value.chunks });
    },
    decode: (wire) => new ModelInput(raw.decode(wire).chunks),
    field: {
      presence: "required",
      shape: raw.field.shape,
      toWire: (value) =>
        at(
          () => "chunks",
          () => ({ chunks: chunks.toWire(modelInputChunks(value)) }),
        ),
      fromWire: (wire) => new ModelInput(raw.field.fromWire(wire).chunks),
    },
  };
}

function modelInputChunks(value: unknown): readonly ModelInputChunk[] {
  if (value instanceof ModelInput) return value.chunks;
  throw new FieldProblem(`must be a ModelInput, not ${describe(value)}`, "Use ModelInput.fromInts(tokenIds).");
}
