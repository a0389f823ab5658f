/**
 * Messages of sampling. The request is JSON; the answer is binary (`proto/tensors.ts`) and decoded lazily: token ids and log-probs
 * stay typed arrays until a caller reads them as lists.
 */

import { describe } from "../describe.ts";
import { omitUndefined } from "../omit-undefined.ts";
import {
  bool,
  custom,
  FieldProblem,
  float,
  int,
  json,
  list,
  literal,
  long,
  oneOf,
  optional,
  string,
  withDefault,
} from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { type InputOf, message } from "../schema/message.ts";
import { ModelInput } from "../values/model-input.ts";
import type { TensorData } from "../values/tensor-data.ts";
import { tensorField } from "./training.ts";

/** Why a sequence ended. A value that this version does not know is kept unchanged. */
export type StopReason = "length" | "stop" | (string & {});

/** Where to stop: a string, strings, or token ids. */
export type Stop = string | readonly string[] | readonly number[];

const stop = () =>
  custom<Stop>(
    {
      type: "union",
      options: [
        { type: "string" },
        { type: "array", items: { type: "string" } },
        { type: "array", items: { type: "integer" } },
      ],
    },
    (value) => {
      if (typeof value === "string") return string().toWire(value) as string;
      if (Array.isArray(value)) {
        if (value.every((item) => typeof item === "string"))
          return list(string()).toWire(value as string[]) as string[];
        if (value.every((item) => Number.isSafeInteger(item))) return value as number[];
        throw new FieldProblem("must contain only strings or only token ids, not both");
      }
      throw new FieldProblem(`must be a string, a list of strings or a list of token ids, not ${describe(value)}`);
    },
  );

/** Sampling parameters. Unknown names are errors; the official client drops them silently. */
export interface SamplingParams {
  /** Maximum number of tokens to sample. Absent: until the context is full or a stop sequence is sampled. */
  readonly maxTokens?: number;
  readonly seed?: number | bigint;
  readonly stop?: Stop;
  /** Sampling temperature; 0 is greedy decoding. @defaultValue 1 */
  readonly temperature: number;
  /** Top-k sampling; -1 disables it. @defaultValue -1 */
  readonly topK: number;
  /** Nucleus sampling: probability mass to keep; 1 disables it. @defaultValue 1 */
  readonly topP: number;
}
/** {@link SamplingParams} with every field optional. */
export type SamplingParamsInput = InputOf<SamplingParams, "temperature" | "topK" | "topP">;
export const SamplingParams = message<SamplingParams, "temperature" | "topK" | "topP">("SamplingParams", {
  maxTokens: optional(int()),
  seed: optional(long()),
  stop: optional(stop()),
  temperature: withDefault(float(), 1),
  topK: withDefault(int(), -1),
  topP: withDefault(float(), 1),
});

/** A format for samples. Tinklet extension: it is sent only to servers that list `constraint` in `tinklet_extensions`. */
export interface SampleConstraint {
  /** Any JSON object, or a value that matches `schema`. */
  readonly type: "json_object" | "json_schema";
  /** A JSON schema; a keyword that the server cannot enforce is an error that names it. */
  readonly schema?: JsonValue;
}
export const SampleConstraint = message<SampleConstraint>("SampleConstraint", {
  type: oneOf("json_object", "json_schema"),
  schema: optional(json()),
});

/** Asks for samples, in one of three ways: from a sampling session, a base model, or a checkpoint. */
export interface SampleRequest {
  /** Number of samples. @defaultValue 1 */
  readonly numSamples: number;
  readonly prompt: ModelInput;
  readonly samplingParams: SamplingParams;
  readonly baseModel?: string;
  readonly modelPath?: string;
  readonly samplingSessionId?: string;
  /** From 0, with gaps, and up to 1e18 in some clients: a `bigint` beyond 2^53. */
  readonly seqId?: number | bigint;
  /** Absent and false differ on the wire. */
  readonly promptLogprobs?: boolean;
  /** @defaultValue 0 */
  readonly topkPromptLogprobs: number;
  /** Newer than 0.25: how many of the most likely tokens to return at each sampled position. */
  readonly topkSampleLogprobs?: number;
  /**
   * Newer than 0.25: token ids whose log-probs to return, int64 `[prompt length − 1, K]`, dense or sparse: row i is scored at prompt
   * position i + 1. A cell of −1 is skipped.
   */
  readonly targetPromptLogprobs?: TensorData;
  /** Newer than 0.25: how many tokens to draw at each prompt position after the first, with the request's temperature. */
  readonly promptAltTokensK?: number;
  /** Newer than 0.25: prompt log-probs for the last n positions only. */
  readonly promptLogprobsLastN?: number;
  /** Newer than 0.25: keep the values of the samples that the loss `stable_reinforce` needs. */
  readonly recordStabilityInfo?: boolean;
  /** Tinklet extension: the format of the samples. */
  readonly tinkletConstraint?: SampleConstraint;
  readonly type: "sample";
}
export const SampleRequest = message<SampleRequest, "numSamples" | "topkPromptLogprobs" | "type">("SampleRequest", {
  numSamples: withDefault(int(), 1),
  prompt: ModelInput.message.field,
  samplingParams: SamplingParams.field,
  baseModel: optional(string()),
  modelPath: optional(string()),
  samplingSessionId: optional(string()),
  seqId: optional(long()),
  promptLogprobs: optional(bool()),
  topkPromptLogprobs: withDefault(int(), 0),
  topkSampleLogprobs: optional(int()),
  targetPromptLogprobs: optional(tensorField),
  promptAltTokensK: optional(int()),
  promptLogprobsLastN: optional(int()),
  recordStabilityInfo: optional(bool()),
  tinkletConstraint: optional(SampleConstraint.field),
  type: literal("sample"),
});

/** A typed array as a plain list. A loop into a sized array is several times faster than `Array.from`. */
function plain(values: Int32Array | Float32Array): number[] {
  const out = new Array<number>(values.length);
  for (let i = 0; i < values.length; i++) out[i] = values[i]!;
  return out;
}

/** One sampled continuation. */
export class SampledSequence {
  /** Why the sequence ended. */
  readonly stopReason: StopReason;
  /** The token ids as received. */
  readonly tokenArray: Int32Array;
  /** Log-probability of each token at temperature 1, as received. */
  readonly logprobArray: Float32Array | undefined;
  /** The most likely tokens at each sampled position, if the server sent them. */
  readonly topkSampledLogprobs: TopkLogprobs | undefined;
  /** The server's id of this sequence, which provenance spans refer to. Servers older than 0.26 send none. */
  readonly sequenceId: string | undefined;
  #topk: (readonly TokenLogprob[] | null)[] | undefined;
  #tokens: number[] | undefined;
  #logprobs: number[] | undefined;

  constructor(parts: {
    readonly stopReason: StopReason;
    readonly tokens: Int32Array | readonly number[];
    readonly logprobs?: Float32Array | readonly number[] | undefined;
    readonly topkSampledLogprobs?: TopkLogprobs | undefined;
    readonly sequenceId?: string | undefined;
  }) {
    this.sequenceId = parts.sequenceId;
    this.stopReason = parts.stopReason;
    this.tokenArray = parts.tokens instanceof Int32Array ? parts.tokens : Int32Array.from(parts.tokens);
    const { logprobs } = parts;
    this.logprobArray =
      logprobs === undefined || logprobs instanceof Float32Array ? logprobs : Float32Array.from(logprobs);
    this.topkSampledLogprobs = parts.topkSampledLogprobs;
  }

  /** The token ids as a list, created on first use. */
  get tokens(): readonly number[] {
    this.#tokens ??= plain(this.tokenArray);
    return this.#tokens;
  }

  /** The log-probabilities as a list, created on first use. */
  get logprobs(): readonly number[] | undefined {
    if (this.logprobArray === undefined) return undefined;
    this.#logprobs ??= plain(this.logprobArray);
    return this.#logprobs;
  }

  /** For each sampled token the most likely tokens at its position (`topkSampleLogprobs`). */
  get topkLogprobs(): readonly (readonly TokenLogprob[] | null)[] | undefined {
    if (this.topkSampledLogprobs === undefined) return undefined;
    this.#topk ??= topkLists(this.topkSampledLogprobs);
    return this.#topk;
  }

  /** A plain object, for `JSON.stringify`. */
  toJSON(): unknown {
    const { stopReason, tokens, logprobs, topkLogprobs, sequenceId } = this;
    return { stopReason, tokens, logprobs, ...omitUndefined({ topkLogprobs, sequenceId }) };
  }
}

/** The k most likely tokens at each of n positions, row by row. An empty cell is (0, -99999). */
export interface TopkLogprobs {
  /** [n, k] */
  readonly tokenIds: Int32Array;
  /** [n, k] */
  readonly logprobs: Float32Array;
  readonly k: number;
  readonly length: number;
}

/** The value that marks an empty top-k cell. */
export const emptyTopkLogprob = -99999;

/** A token and its log-probability. */
export type TokenLogprob = readonly [tokenId: number, logprob: number];

/** Top-k cells as lists: null where nothing was computed, without the empty cells at the end of a row. */
export function topkLists(topk: TopkLogprobs): (readonly TokenLogprob[] | null)[] {
  const empty = (cell: number) => topk.tokenIds[cell] === 0 && topk.logprobs[cell] === emptyTopkLogprob;
  return Array.from({ length: topk.length }, (_, row) => {
    const start = row * topk.k;
    if (empty(start)) return null;
    let end = start + topk.k;
    while (end > start && empty(end - 1)) end--;
    return Array.from(
      { length: end - start },
      (_unused, i): TokenLogprob => [topk.tokenIds[start + i]!, topk.logprobs[start + i]!],
    );
  });
}

/** Tokens drawn at every prompt position after the first, with their log-probs: row i belongs to prompt position i + 1. */
export interface PromptAltTokens {
  /** int64 `[prompt length − 1, k]` */
  readonly tokens: TensorData;
  /** float32 `[prompt length − 1, k]`, at temperature 1. */
  readonly logprobs: TensorData;
}

/** The answer to a {@link SampleRequest}. */
export class SampleResponse {
  /** One per requested sample. */
  readonly sequences: readonly SampledSequence[];
  /** One value per prompt token as received: NaN where nothing was computed (the first token). */
  readonly promptLogprobArray: Float32Array | undefined;
  /** The most likely tokens of each prompt position as received. */
  readonly topkPromptLogprobTable: TopkLogprobs | undefined;
  /** Log-probs of the tokens in the request's `targetPromptLogprobs`, in its shape and layout; 0 where it had −1. */
  readonly targetPromptLogprobs: TensorData | undefined;
  /** The tokens that `promptAltTokensK` requested. */
  readonly promptAltTokens: PromptAltTokens | undefined;
  /** Prompt tokens that came from the server's prefix cache. */
  readonly promptCacheHitTokens: number;
  #promptLogprobs: (number | null)[] | undefined;
  #topk: (readonly TokenLogprob[] | null)[] | undefined;

  constructor(parts: {
    readonly sequences: readonly SampledSequence[];
    readonly promptLogprobs?: Float32Array | undefined;
    readonly topkPromptLogprobs?: TopkLogprobs | undefined;
    readonly targetPromptLogprobs?: TensorData | undefined;
    readonly promptAltTokens?: PromptAltTokens | undefined;
    readonly promptCacheHitTokens?: number;
  }) {
    this.sequences = parts.sequences;
    this.promptLogprobArray = parts.promptLogprobs;
    this.topkPromptLogprobTable = parts.topkPromptLogprobs;
    this.targetPromptLogprobs = parts.targetPromptLogprobs;
    this.promptAltTokens = parts.promptAltTokens;
    this.promptCacheHitTokens = parts.promptCacheHitTokens ?? 0;
  }

  /** One value per prompt token, null where nothing was computed. */
  get promptLogprobs(): readonly (number | null)[] | undefined {
    if (this.promptLogprobArray === undefined) return undefined;
    this.#promptLogprobs ??= Array.from(this.promptLogprobArray, (value) => (Number.isNaN(value) ? null : value));
    return this.#promptLogprobs;
  }

  /** For each prompt position the most likely tokens, or null. */
  get topkPromptLogprobs(): readonly (readonly TokenLogprob[] | null)[] | undefined {
    if (this.topkPromptLogprobTable === undefined) return undefined;
    this.#topk ??= topkLists(this.topkPromptLogprobTable);
    return this.#topk;
  }

  /** The same answer with the sequence ids of the request's acknowledgement. */
  withSequenceIds(ids: readonly string[] | undefined): SampleResponse {
    if (ids?.length !== this.sequences.length) return this;
    const sequences = this.sequences.map(
      ({ stopReason, tokenArray, logprobArray, topkSampledLogprobs }, i) =>
        new SampledSequence({
          stopReason,
          tokens: tokenArray,
          logprobs: logprobArray,
          topkSampledLogprobs,
          sequenceId: ids[i],
        }),
    );
    const { promptLogprobArray: promptLogprobs, topkPromptLogprobTable: topkPromptLogprobs } = this;
    return new SampleResponse({ ...this, sequences, promptLogprobs, topkPromptLogprobs });
  }

  /** A plain object, for `JSON.stringify`. */
  toJSON(): unknown {
    const { targetPromptLogprobs, promptAltTokens } = this;
    return {
      sequences: this.sequences,
      promptLogprobs: this.promptLogprobs,
      topkPromptLogprobs: this.topkPromptLogprobs,
      promptCacheHitTokens: this.promptCacheHitTokens,
      ...omitUndefined({ targetPromptLogprobs, promptAltTokens }),
    };
  }
}

/** Another process joins a sampling session. Newer than 0.25. */
export interface JoinSamplingSessionRequest {
  readonly samplingSessionId: string;
  readonly type: "join_sampling_session";
}
export const JoinSamplingSessionRequest = message<JoinSamplingSessionRequest, "type">("JoinSamplingSessionRequest", {
  samplingSessionId: string(),
  type: literal("join_sampling_session"),
});

/** The number of the process that joined; its sequence numbers start at 10^9 times that number. */
export interface JoinSamplingSessionResponse {
  readonly type: "join_sampling_session";
  readonly clientCounter: number;
}
export const JoinSamplingSessionResponse = message<JoinSamplingSessionResponse, "type">("JoinSamplingSessionResponse", {
  type: literal("join_sampling_session"),
  clientCounter: int(),
});
