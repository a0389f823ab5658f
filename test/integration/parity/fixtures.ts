/**
 * What was recorded from the official SDK, and how its language-neutral recipes become our own values. Knows nothing of
 * which differences are allowed: that is `differences.ts`.
 */
import { readFileSync } from "node:fs";
import * as wire from "tinklet/wire";
import { parseJson } from "tinklet/wire";

export const versions = ["0.25.0", "0.36.0"] as const;
export type Version = (typeof versions)[number];

/** One recorded value. Which of the fields it has depends on its file. */
export interface Entry {
  readonly id: string;
  readonly type: string;
  readonly input?: unknown;
  readonly forwardOnly?: boolean;
  readonly wire?: string;
  readonly proto?: string;
  readonly text?: string;
  readonly parsed?: unknown;
  readonly error?: {
    readonly type: string;
    readonly errors?: readonly { loc: readonly (string | number)[]; type: string }[];
  };
}

export function fixture<T = { values: Entry[] }>(version: Version, name: string): T {
  return JSON.parse(
    readFileSync(new URL(`../../fixtures/tinker-${version}/${name}.json`, import.meta.url), "utf8"),
  ) as T;
}

interface NewFields {
  readonly name: string;
  readonly added?: readonly { readonly name: string; readonly default?: unknown }[];
}

/** What the newest release added to types that 0.25.0 has, by type: ours reads them, and sends them where they carry something. */
export const newerFields: ReadonlyMap<string, ReadonlyMap<string, unknown>> = new Map(
  (
    JSON.parse(readFileSync(new URL("../../fixtures/new-in-0.36.0.json", import.meta.url), "utf8")) as {
      changedTypes: NewFields[];
    }
  ).changedTypes.map(({ name, added = [] }) => [name, new Map(added.map((field) => [field.name, field.default]))]),
);

/** Fields that the official SDK reads by hand, past its own model, or that only Tinklet has. */
const unmodelled: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ["TryAgainResponse", new Set(["queue_state_reason"])],
  ["ClientConfigResponse", new Set(["tinklet_extensions"])],
  ["Checkpoint", new Set(["run_name", "reference"])],
  ["TrainingRun", new Set(["name"])],
  ["SampleRequest", new Set(["tinklet_constraint"])],
]);
/**
 * Whether a field is left out of the comparison: one that the official model does not have, or a newer one that carries nothing,
 * which the newest release sends all the same and ours does not.
 */
const isIdle = (message: AnyMessage, name: string, value: unknown) => {
  if (unmodelled.get(message.name)?.has(name) === true) return true;
  const newer = newerFields.get(message.name);
  if (newer?.has(name) !== true) return false;
  if (name === "optimizer_config" && JSON.stringify(value) === "{}") return true; // pydantic fills the one default in
  return value === undefined || value === null || JSON.stringify(neutral(value)) === JSON.stringify(newer.get(name));
};

export interface AnyMessage {
  readonly name: string;
  readonly fields: readonly wire.FieldDescription[];
  encode(value: object): unknown;
  decode(value: unknown): object;
}

const isMessage = (value: unknown): value is AnyMessage =>
  typeof value === "object" && value !== null && "fields" in value && "encode" in value;

/** Every message of ours by the name the official SDK has for it. */
export const messages = new Map<string, AnyMessage>(
  ([...Object.values(wire), wire.ModelInput.message, wire.forwardBackwardOutputJson] as unknown[])
    .filter(isMessage)
    .map((message) => [message.name, message]),
);
// older names of the same messages
messages.set("TelemetryBatch", messages.get("TelemetrySendRequest") as AnyMessage);

export const camelCase = (name: string): string =>
  name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const arrays: Record<string, (values: never) => unknown> = {
  $f32: (values) => Float32Array.from(values as number[], Number),
  $f64: (values) => Float64Array.from(values as number[], Number),
  $f16: (values) => ({ data: Float32Array.from(values as number[], Number), dtype: "float16" }),
  $i8: (values) => Int8Array.from(values as number[]),
  $i16: (values) => Int16Array.from(values as number[]),
  $i32: (values) => Int32Array.from(values as number[]),
  $i64: (values) => BigInt64Array.from(values as string[], BigInt),
  $u8: (values) => Uint8Array.from(values as number[]),
  $u16: (values) => Uint16Array.from(values as number[]),
  $u32: (values) => Uint32Array.from(values as number[]),
  $u64: (values) => BigUint64Array.from(values as string[], BigInt),
  $bool: (values) => ({ data: Uint8Array.from(values as number[]), dtype: "bool" }),
};

/** Turns a recipe into the value that a TypeScript user would have written. */
export function build(recipe: unknown): unknown {
  if (Array.isArray(recipe)) return recipe.map(build);
  if (!isObject(recipe)) return recipe;
  if (typeof recipe["$type"] === "string") {
    const { $type, ...fields } = recipe;
    // a value of a class of theirs is told apart by its class; ours by the word that the class stands for
    const word = messages
      .get($type as string)
      ?.fields.find(({ name, shape }) => name === "type" && shape.type === "literal");
    return construct($type as string, { ...(word === undefined ? {} : { type: word.default }), ...fields });
  }
  const [tag = ""] = Object.keys(recipe);
  if (tag in arrays) {
    const made = (arrays[tag] as (values: unknown) => unknown)(recipe[tag]);
    const shape = recipe["shape"];
    return shape === undefined ? made : isObject(made) && "data" in made ? { ...made, shape } : { data: made, shape };
  }
  if (tag === "$bytes") return wire.decodeBase64(recipe[tag] as string);
  if (tag === "$int") return BigInt(recipe[tag] as string);
  if (tag === "$float") return Number(recipe[tag]);
  if (tag === "$date") return new Date(recipe[tag] as string);
  if (tag === "$tuple") return new Set(recipe[tag] as unknown[]); // any container that is no list
  if (tag === "$map")
    return Object.fromEntries((recipe[tag] as [string, unknown][]).map(([key, item]) => [key, build(item)]));
  return Object.fromEntries(Object.entries(recipe).map(([key, item]) => [key, build(item)]));
}

const renamed = (fields: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).map(([key, item]) => [camelCase(key), build(item)]));

/** A value of the named type, built through our public API; throws what that API throws. */
export function construct(type: string, fields: Record<string, unknown>): unknown {
  switch (type) {
    case "ModelInput":
      return new wire.ModelInput(build(fields["chunks"]) as wire.ModelInputChunk[]);
    case "EncodedTextChunk":
    case "ImageChunk":
    case "ImageAssetPointerChunk":
    case "DmelChunk": {
      const message = messages.get(type) as AnyMessage;
      const given = renamed(fields);
      return { type: message.fields.find((field) => field.name === "type")?.default, ...given };
    }
    case "Datum": {
      // Python's spelling of a span's kind is its class
      return new wire.Datum(renamed(fields) as unknown as ConstructorParameters<typeof wire.Datum>[0]);
    }
    case "PromptProvenanceSpan":
    case "SampledProvenanceSpan":
      return { type: type === "PromptProvenanceSpan" ? "prompt" : "sampled", ...renamed(fields) };
    case "OptimStepRequest": {
      const { optimParams, adamParams = optimParams, optimizerParams, ...rest } = renamed(fields);
      const given = adamParams ?? optimizerParams;
      if (!isObject(given) || !("type" in given)) return { ...rest, adamParams: given };
      return { ...rest, optimizerParams: wire.encodeOptimParams(given as unknown as wire.OptimParamsBase) };
    }
    case "OptimParamsBase":
    case "OptimizerConfigBase":
      return build(fields); // fields of their own, under the wire's names
    case "TensorData":
    case "pydantic:TensorData":
      return tensor(fields);
    case "ForwardBackwardInput":
      return renamed(fields);
    default:
      return renamed(fields);
  }
}

function tensor(fields: Record<string, unknown>): wire.TensorData {
  const parts = renamed(fields) as {
    data?: wire.TensorLike;
    dtype?: wire.TensorDtype;
    shape?: number[];
    sparseCrowIndices?: number[];
    sparseColIndices?: number[];
  };
  const data =
    isObject(parts.data) && "data" in parts.data ? (parts.data["data"] as wire.TensorLike) : (parts.data ?? []);
  if (parts.sparseCrowIndices !== undefined || parts.sparseColIndices !== undefined) {
    return wire.TensorData.fromSparse({
      values: data,
      ...(parts.dtype === undefined ? {} : { dtype: parts.dtype }),
      crowIndices: parts.sparseCrowIndices ?? [],
      colIndices: parts.sparseColIndices ?? [],
      shape: parts.shape ?? [],
    });
  }
  const made = wire.TensorData.from(data, {
    ...(parts.dtype === undefined ? {} : { dtype: parts.dtype }),
    ...(parts.shape === undefined ? {} : { shape: parts.shape }),
  });
  // Python's constructor leaves a shape that was not given out; our `from` knows it
  if (parts.shape !== undefined) return made;
  return wire.TensorData.ofParts({ dtype: made.dtype, values: made.values });
}

/** Something comparable: numbers as doubles, big integers as text, dates by their milliseconds, absent as null. */
export function neutral(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  // an integer that a double holds exactly is that number, however it was written (1e16)
  if (typeof value === "bigint") return BigInt(Number(value)) === value ? Number(value) : `int:${value}`;
  if (typeof value === "number") return Number.isFinite(value) ? value + 0 : `float:${value}`;
  if (value instanceof Date) return `date:${value.toISOString()}`;
  if (value instanceof Uint8Array) return `bytes:${wire.encodeBase64(value)}`;
  if (value instanceof wire.TensorData) {
    const { sparseCrowIndices: crow, sparseColIndices: col } = value;
    const sparse = crow === undefined ? {} : { sparse_crow_indices: neutral(crow), sparse_col_indices: neutral(col) };
    const shape = neutral(value.shape ?? [value.values.length]);
    return { data: neutral(value.data), dtype: value.dtype, shape, ...sparse };
  }
  if (ArrayBuffer.isView(value)) return neutral(Array.from(value as unknown as number[]));
  if (Array.isArray(value)) return value.map(neutral);
  if (typeof value !== "object") return value;
  const tagged = value as Record<string, unknown>;
  if (typeof tagged["$date"] === "string") return `date:${new Date(`${tagged["$date"].slice(0, 23)}Z`).toISOString()}`;
  if (typeof tagged["$float"] === "string") return neutral(Number(tagged["$float"]));
  if (typeof tagged["$int"] === "string") return neutral(BigInt(tagged["$int"]));
  if (typeof tagged["$bytes"] === "string") return `bytes:${tagged["$bytes"]}`;
  if (Array.isArray(tagged["$map"]))
    return Object.fromEntries((tagged["$map"] as [string, unknown][]).map(([k, v]) => [k, neutral(v)]));
  return Object.fromEntries(Object.entries(tagged).map(([key, item]) => [key, neutral(item)]));
}

/** JSON text as a comparable value. */
export const neutralJson = (text: string): unknown => neutral(parseJson(text));

/** A recorded value without what ours has no field for, and without what carries nothing. */
export function commonPart(message: AnyMessage, value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(
    message.fields
      .filter((field) => field.name in value && !isIdle(message, field.name, value[field.name]))
      .map((field) => [field.name, commonShape(field.shape, value[field.name])]),
  );
}

function commonShape(shape: wire.Shape, value: unknown): unknown {
  if (value === undefined || value === null) return value;
  if (shape.type === "array" && Array.isArray(value)) return value.map((item) => commonShape(shape.items, item));
  if (shape.type === "map" && isObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, commonShape(shape.values, item)]));
  }
  const inner = shape.type === "message" ? messages.get(shape.name) : undefined;
  return inner === undefined || inner.fields.length === 0 ? value : commonPart(inner, value);
}

/** Fields of a recipe that our message does not have, apart from the one the recorder invented. */
export function unknownInput(message: AnyMessage, input: unknown): string[] {
  if (!isObject(input)) return [];
  if (message.name === "OptimStepRequest") return []; // three names for one thing: `construct` knows them
  const known = new Set(message.fields.map((field) => field.name));
  return Object.keys(input).filter((name) => !known.has(name) && name !== "surprise");
}

/** A parsed value of ours under the wire's names, so that it compares with what pydantic parsed. */
export function underWireNames(message: AnyMessage, value: object): unknown {
  return neutral(reencoded(message, value));
}

function reencoded(message: AnyMessage, value: object): unknown {
  const source = value as Record<string, unknown>;
  return Object.fromEntries(
    message.fields
      .filter((field) => !isIdle(message, field.name, source[camelCase(field.name)]))
      .map((field) => [field.name, wireShaped(field.shape, source[camelCase(field.name)])]),
  );
}

function wireShaped(shape: wire.Shape, value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (shape.type === "array") return (value as unknown[]).map((item) => wireShaped(shape.items, item));
  if (shape.type === "map") {
    return Object.fromEntries(
      Object.entries(value as object).map(([key, item]) => [key, wireShaped(shape.values, item)]),
    );
  }
  if (shape.type === "message") {
    const inner = messages.get(shape.name);
    return inner === undefined ? value : reencoded(inner, value as object);
  }
  if (shape.type === "nullable") return wireShaped(shape.of, value);
  if (shape.type === "union") {
    const type = (value as { type?: string }).type;
    const option = shape.options.find(
      (each) =>
        each.type === "message" && messages.get(each.name)?.fields.some((f) => f.name === "type" && f.default === type),
    );
    return option === undefined ? value : wireShaped(option, value);
  }
  return value;
}
