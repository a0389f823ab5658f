/**
 * Validates training data: from `TrainingDatum`s with loosely typed tensors (dense or CSR) to flat arrays. Every rejection is an InputError
 * with the path of the value. Code after this module does not validate its inputs.
 */

import { InputError } from "../errors.ts";
import { sameShape } from "../graph/dims.ts";
import type { LossFnName, LossRequest, TensorInput, TrainingDatum } from "../types.ts";
import { type LossPosition, losses } from "./losses.ts";

/** A validated datum. `tokens` is `[positions]`; the arrays of the loss are row-major `[positions, width]`. */
export interface CheckedDatum {
  readonly tokens: Int32Array;
  /** Targets per position: 1, or more for distillation. */
  readonly width: number;
  /** Shape of the given `target_tokens`; outputs have the same shape. */
  readonly shape: readonly number[];
  readonly targets: Int32Array;
  /** The targets whose ratios define the sequence's ratio; empty except for gspo. */
  readonly ratioTargets: readonly number[];
  /** Loss inputs of target i, without the model's log-prob. */
  position(index: number): Omit<LossPosition, "logprob">;
}

const toNumbers = (data: TensorInput["data"] | NonNullable<TensorInput["sparseColIndices"]>): ArrayLike<number> =>
  data instanceof BigInt64Array ? Float64Array.from(data, Number) : data;

/**
 * Row-major values and shape; CSR becomes dense. The declared size of a CSR tensor is not trusted: nothing is allocated for more than
 * `maxColumns` columns, or before `fits` has accepted the shape.
 */
const densify = (
  tensor: TensorInput,
  field: string,
  { maxColumns, fits }: { maxColumns: number; fits: (shape: readonly number[]) => void },
): { values: ArrayLike<number>; shape: readonly number[] } => {
  const stored = toNumbers(tensor.data);
  const { sparseCrowIndices, sparseColIndices } = tensor;
  if (!sparseCrowIndices && !sparseColIndices) {
    const shape = tensor.shape ?? [stored.length];
    if (shape.reduce((n, dim) => n * dim, 1) !== stored.length) {
      throw new InputError(field, `shape [${shape.join(", ")}] does not hold ${stored.length} values`);
    }
    fits(shape);
    return { values: stored, shape };
  }
  if (!sparseCrowIndices || !sparseColIndices)
    throw new InputError(field, "a sparse tensor needs both row and column indices");
  const [rows, columns] = tensor.shape ?? [];
  if (tensor.shape?.length !== 2 || rows === undefined || columns === undefined) {
    throw new InputError(field, "a sparse tensor needs a two-dimensional shape");
  }
  if (!Number.isInteger(columns) || columns < 0 || columns > maxColumns) {
    throw new InputError(field, `${columns} columns: a position has at most as many as the vocabulary, ${maxColumns}`);
  }
  fits(tensor.shape);
  const pointers = toNumbers(sparseCrowIndices);
  const column = toNumbers(sparseColIndices);
  if (
    pointers.length !== rows + 1 ||
    column.length !== stored.length ||
    pointers[rows] !== stored.length ||
    pointers[0] !== 0
  ) {
    throw new InputError(
      field,
      "row pointers, column indices and values of the sparse tensor have inconsistent lengths",
    );
  }
  const values = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    if (pointers[row + 1]! < pointers[row]!)
      throw new InputError(field, "row pointers of the sparse tensor go backwards");
    for (let i = pointers[row]!; i < pointers[row + 1]!; i++) {
      const at = column[i]!;
      if (!Number.isInteger(at) || at < 0 || at >= columns)
        throw new InputError(field, `column ${at} is outside the shape`);
      values[row * columns + at] = stored[i]!;
    }
  }
  return { values, shape: tensor.shape };
};

const checkTokens = (given: ArrayLike<number>, vocabSize: number, field: string): Int32Array => {
  const tokens = new Int32Array(given.length);
  for (let i = 0; i < given.length; i++) {
    const token = given[i]!;
    if (!Number.isInteger(token) || token < 0 || token >= vocabSize) {
      throw new InputError(`${field}[${i}]`, `token ${token} is not in the vocabulary of ${vocabSize}`);
    }
    tokens[i] = token;
  }
  return tokens;
};

/** A loss's configuration with defaults; unknown keys are rejected. */
export const lossConfig = (
  lossFn: LossFnName,
  given: Readonly<Record<string, number>> = {},
): Record<string, number> => {
  const known = losses[lossFn].config;
  for (const [key, value] of Object.entries(given)) {
    if (!(key in known)) {
      const keys = Object.keys(known);
      throw new InputError(
        `lossFnConfig.${key}`,
        `${lossFn} takes ${keys.length ? keys.join(", ") : "no configuration"}`,
      );
    }
    if (typeof value !== "number" || Number.isNaN(value)) throw new InputError(`lossFnConfig.${key}`, "not a number");
  }
  const config = { ...known, ...given };
  if ((config["clip_low_threshold"] ?? 0) > (config["clip_high_threshold"] ?? 0)) {
    throw new InputError("lossFnConfig", "clip_low_threshold is above clip_high_threshold");
  }
  return config;
};

const checkDatum = (
  datum: TrainingDatum,
  index: number,
  {
    lossFn,
    config,
    limits,
  }: {
    readonly lossFn: LossFnName;
    readonly config: Record<string, number>;
    readonly limits: { readonly vocabSize: number; readonly contextLength: number };
  },
): CheckedDatum => {
  const path = `data[${index}]`;
  const { inputs } = losses[lossFn];
  for (const key of Object.keys(datum.lossFnInputs)) {
    if (key !== "target_tokens" && key !== "weights" && !(key in inputs)) {
      const keys = ["target_tokens", "weights", ...Object.keys(inputs)].join(", ");
      throw new InputError(`${path}.lossFnInputs.${key}`, `${lossFn} takes ${keys}`);
    }
  }
  const tokens = checkTokens(datum.tokens, limits.vocabSize, `${path}.tokens`);
  if (tokens.length === 0) throw new InputError(`${path}.tokens`, "is empty");
  if (tokens.length > limits.contextLength) {
    throw new InputError(`${path}.tokens`, `${tokens.length} tokens exceed the context of ${limits.contextLength}`);
  }
  const field = (name: string): string => `${path}.lossFnInputs.${name}`;
  const given = datum.lossFnInputs["target_tokens"];
  if (!given) throw new InputError(field("target_tokens"), "is required");
  const maxColumns = limits.vocabSize;
  const targets = densify(given, field("target_tokens"), {
    maxColumns,
    fits: (shape) => {
      if (shape.length >= 1 && shape.length <= 2 && shape[0] === tokens.length && shape[1] !== 0) return;
      throw new InputError(
        field("target_tokens"),
        `shape [${shape.join(", ")}] does not fit ${tokens.length} input tokens`,
      );
    },
  });
  const { shape } = targets;
  const optional = (name: string): ArrayLike<number> | undefined => {
    const tensor = datum.lossFnInputs[name];
    if (!tensor) {
      if (inputs[name]) throw new InputError(field(name), `${lossFn} needs it`);
      return undefined;
    }
    const fits = (own: readonly number[]): void => {
      if (sameShape(own, shape)) return;
      throw new InputError(
        field(name),
        `shape [${own.join(", ")}] differs from that of target_tokens, [${shape.join(", ")}]`,
      );
    };
    return densify(tensor, field(name), { maxColumns, fits }).values;
  };
  const weights = optional("weights");
  const logprobs = optional("logprobs");
  const advantages = optional("advantages");
  const low = optional("clip_low_threshold");
  const high = optional("clip_high_threshold");
  const ratioTargets = markedTargets(optional("sequence_ratio_mask"), logprobs, field);
  const position = (i: number): Omit<LossPosition, "logprob"> => ({
    weight: weights?.[i] ?? 1,
    samplingLogprob: Number.isFinite(logprobs?.[i]) ? logprobs![i]! : 0,
    advantage: advantages?.[i] ?? 0,
    clipLow: low?.[i] ?? config["clip_low_threshold"] ?? 0,
    clipHigh: high?.[i] ?? config["clip_high_threshold"] ?? 0,
    beta: config["beta"] ?? 0,
  });
  for (const [name, values] of Object.entries({ weights, advantages })) {
    for (let i = 0; values && i < values.length; i++) {
      if (!Number.isFinite(values[i])) {
        throw new InputError(`${field(name)}[${i}]`, `${values[i]} is not a finite number`);
      }
    }
  }
  for (const [name, values] of Object.entries({ clip_low_threshold: low, clip_high_threshold: high })) {
    for (let i = 0; values && i < values.length; i++) {
      // Also at positions with weight 0, since 0 · NaN is NaN.
      if (Number.isNaN(values[i])) throw new InputError(`${field(name)}[${i}]`, "is not a number");
    }
  }
  for (let i = 0; logprobs && i < logprobs.length; i++) {
    const at = position(i);
    const { ratio, clipped, gap } = losses[lossFn].slopeTerms(at);
    // A sampler has no log-prob for prompt tokens: NaN is accepted where neither the log-prob nor a threshold affects the slope.
    if (ratio === 0 && clipped === 0 && gap === 0) continue;
    if (!Number.isFinite(logprobs[i]) && lossFn !== "gspo") {
      throw new InputError(`${field("logprobs")}[${i}]`, `${logprobs[i]} is not a finite number`, {
        hint: "where there is none, give the position weight 0",
      });
    }
    if (at.clipLow > at.clipHigh) {
      throw new InputError(
        `${field(low ? "clip_low_threshold" : "clip_high_threshold")}[${i}]`,
        `clip_low_threshold is ${at.clipLow} there, above clip_high_threshold, ${at.clipHigh}`,
      );
    }
  }
  return {
    tokens,
    shape,
    width: shape[1] ?? 1,
    targets: checkTokens(targets.values, limits.vocabSize, field("target_tokens")),
    ratioTargets,
    position,
  };
};

/** The targets that the mask marks: at least one, each with a log-prob of the sampler. */
const markedTargets = (
  mask: ArrayLike<number> | undefined,
  logprobs: ArrayLike<number> | undefined,
  field: (name: string) => string,
): readonly number[] => {
  if (!mask) return [];
  const marked: number[] = [];
  for (let i = 0; i < mask.length; i++) {
    if (Number.isNaN(mask[i])) throw new InputError(`${field("sequence_ratio_mask")}[${i}]`, "is not a number");
    if (mask[i] === 0) continue;
    if (!Number.isFinite(logprobs?.[i])) {
      throw new InputError(`${field("logprobs")}[${i}]`, `${logprobs?.[i]} is not a finite number`, {
        hint: "sequence_ratio_mask marks it; give the prompt's tokens a 0 there",
      });
    }
    marked.push(i);
  }
  if (marked.length === 0) throw new InputError(field("sequence_ratio_mask"), "marks no token");
  return marked;
};

/** Validates a whole request. */
export const checkRequest = (
  request: LossRequest,
  limits: { vocabSize: number; contextLength: number },
): { data: CheckedDatum[]; lossFn: LossFnName } => {
  if (!Object.hasOwn(losses, request.lossFn)) {
    throw new InputError(
      "lossFn",
      `must be one of ${Object.keys(losses).join(", ")}, got ${JSON.stringify(request.lossFn)}`,
    );
  }
  if (request.data.length === 0) throw new InputError("data", "is empty");
  const config = lossConfig(request.lossFn, request.lossFnConfig);
  return {
    lossFn: request.lossFn,
    data: request.data.map((datum, index) => checkDatum(datum, index, { lossFn: request.lossFn, config, limits })),
  };
};
