/**
 * Messages of training: creating and describing models, optimizer steps, the output of passes. Passes themselves are binary
 * (`proto/tensors.ts`); their JSON forms are `training-json.ts`.
 */

import { closest } from "../closest.ts";
import { describe } from "../describe.ts";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";
import { omitUndefined } from "../omit-undefined.ts";
import {
  bool,
  custom,
  type Field,
  FieldProblem,
  float,
  int,
  json,
  list,
  literal,
  long,
  map,
  oneOf,
  optional,
  string,
  withDefault,
} from "../schema/fields.ts";
import { type InputOf, message } from "../schema/message.ts";
import type { LossFnOutput } from "../values/datum.ts";
import { TensorData, type TensorDtype } from "../values/tensor-data.ts";
import type { UserMetadata } from "./session.ts";

/** A model's id: `<session>:train:<n>`. */
export type ModelID = string;

/** The losses of the service. Each is a sum over tokens. */
export type LossFnType =
  | "cross_entropy"
  | "importance_sampling"
  | "ppo"
  | "cispo"
  | "dro"
  | "gspo"
  | "stable_reinforce"
  | "custom";
/** The losses of the official service. The last three are newer than 0.25. */
export const lossFnTypes: readonly LossFnType[] = [
  "cross_entropy",
  "importance_sampling",
  "ppo",
  "cispo",
  "dro",
  "gspo",
  "stable_reinforce",
  "custom",
];

/**
 * Checks a loss's name before anything is sent.
 *
 * @param options.allowUnknown - accepts names that only other servers know (`dppo`).
 * @throws {@link InvalidInputError} naming `lossFn`.
 */
export function checkLossFn(lossFn: string, options: { readonly allowUnknown?: boolean } = {}): void {
  if (typeof lossFn !== "string")
    throw new InvalidInputError("lossFn", `must be the name of a loss, not ${describe(lossFn)}`);
  if (options.allowUnknown === true || lossFnTypes.includes(lossFn as LossFnType)) return;
  const close = closest(lossFn, lossFnTypes);
  throw new InvalidInputError("lossFn", `${JSON.stringify(lossFn)} is not a loss of the service`, {
    hint: `${close === undefined ? "" : `Did you mean ${JSON.stringify(close)}? `}Known: ${lossFnTypes.join(", ")}. For a loss of another server set allowUnknownLoss: true.`,
  });
}

/** Parameters of a loss: numbers, for example `clip_low_threshold`; newer losses also accept strings. */
export type LossFnConfig = Readonly<Record<string, number | string>>;

/** The low-rank adapter that is trained. */
export interface LoraConfig {
  readonly rank: number;
  /** Seed of the adapter's initial weights; absent: the service chooses one. */
  readonly seed?: number | bigint;
  readonly trainUnembed: boolean;
  readonly trainMlp: boolean;
  readonly trainAttn: boolean;
}
export const LoraConfig = message<LoraConfig, "trainUnembed" | "trainMlp" | "trainAttn">(
  "LoraConfig",
  {
    rank: int(),
    seed: optional(long()),
    trainUnembed: withDefault(bool(), true),
    trainMlp: withDefault(bool(), true),
    trainAttn: withDefault(bool(), true),
  },
  {
    check: (value, fail) => {
      if (!value.trainUnembed && !value.trainMlp && !value.trainAttn) {
        fail("trainMlp", "at least one of trainMlp, trainAttn and trainUnembed must be true");
      }
      if (value.rank < 1) fail("rank", `must be at least 1, not ${value.rank}`);
    },
  },
);

/** Creates a model to train. */
export interface CreateModelRequest {
  readonly sessionId: string;
  readonly modelSeqId: number;
  readonly baseModel: string;
  readonly userMetadata?: UserMetadata;
  readonly loraConfig?: LoraConfig;
  /** Newer than 0.25: which optimizer; absent means AdamW. */
  readonly optimizerConfig?: UserMetadata;
  readonly type: "create_model";
}
export const CreateModelRequest = message<CreateModelRequest, "type">("CreateModelRequest", {
  sessionId: string(),
  modelSeqId: int(),
  baseModel: string(),
  userMetadata: optional(map(json())),
  loraConfig: optional(LoraConfig.field),
  optimizerConfig: optional(map(json())),
  type: literal("create_model"),
});

/** The new model. */
export interface CreateModelResponse {
  readonly modelId: ModelID;
  readonly type: "create_model";
}
export const CreateModelResponse = message<CreateModelResponse, "type">("CreateModelResponse", {
  modelId: string(),
  type: literal("create_model"),
});

/** Asks for the description of a model. */
export interface GetInfoRequest {
  readonly modelId: ModelID;
  readonly type: "get_info";
}
export const GetInfoRequest = message<GetInfoRequest, "type">("GetInfoRequest", {
  modelId: string(),
  type: literal("get_info"),
});

/** Architecture and tokenizer of a model. */
export interface ModelData {
  readonly arch?: string;
  readonly modelName?: string;
  readonly tokenizerId?: string;
}
export const ModelData = message<ModelData>("ModelData", {
  arch: optional(string()),
  modelName: optional(string()),
  tokenizerId: optional(string()),
});

/** Description of a model. */
export interface GetInfoResponse {
  readonly type?: "get_info";
  readonly modelData: ModelData;
  readonly modelId: ModelID;
  readonly isLora?: boolean;
  readonly loraRank?: number;
  readonly modelName?: string;
  /** Newer than 0.25. */
  readonly optimizerConfig?: UserMetadata;
}
export const GetInfoResponse = message<GetInfoResponse>("GetInfoResponse", {
  type: optional(oneOf("get_info")),
  modelData: ModelData.field,
  modelId: string(),
  isLora: optional(bool()),
  loraRank: optional(int()),
  modelName: optional(string()),
  optimizerConfig: optional(map(json())),
});

/** Removes a model from memory. The official clients never send it; this client does. */
export interface UnloadModelRequest {
  readonly modelId: ModelID;
  readonly type: "unload_model";
}
export const UnloadModelRequest = message<UnloadModelRequest, "type">("UnloadModelRequest", {
  modelId: string(),
  type: literal("unload_model"),
});

/** The model was removed from the server's memory. */
export interface UnloadModelResponse {
  readonly modelId: ModelID;
  readonly type?: "unload_model";
}
export const UnloadModelResponse = message<UnloadModelResponse>("UnloadModelResponse", {
  modelId: string(),
  type: optional(oneOf("unload_model")),
});

/** The optimizer's settings for one step. */
export interface AdamParams {
  /** @defaultValue 0.0001 */
  readonly learningRate: number;
  /** @defaultValue 0.9 */
  readonly beta1: number;
  /** @defaultValue 0.95 */
  readonly beta2: number;
  /** @defaultValue 1e-12 */
  readonly eps: number;
  /** Decoupled weight decay. @defaultValue 0 */
  readonly weightDecay: number;
  /** Largest norm of the whole gradient; 0 switches clipping off. @defaultValue 0 */
  readonly gradClipNorm: number;
}
/** {@link AdamParams} with every field optional. */
export type AdamParamsInput = InputOf<AdamParams, keyof AdamParams>;
export const AdamParams = message<AdamParams, keyof AdamParams>(
  "AdamParams",
  {
    learningRate: withDefault(float(), 1e-4),
    beta1: withDefault(float(), 0.9),
    beta2: withDefault(float(), 0.95),
    eps: withDefault(float(), 1e-12),
    weightDecay: withDefault(float(), 0),
    gradClipNorm: withDefault(float(), 0),
  },
  {
    check: (value, fail) => {
      for (const key of ["learningRate", "eps", "weightDecay", "gradClipNorm"] as const) {
        if (!(value[key] >= 0)) fail(key, `must not be negative, got ${value[key]}`);
      }
      for (const key of ["beta1", "beta2"] as const) {
        if (!(value[key] >= 0 && value[key] < 1)) fail(key, `must be at least 0 and below 1, got ${value[key]}`);
      }
    },
  },
);

/** Applies the accumulated gradients. */
export interface OptimStepRequest {
  /** Settings of AdamW; absent for another optimizer. */
  readonly adamParams?: AdamParams;
  readonly modelId: ModelID;
  readonly seqId?: number;
  /** Newer than 0.25: settings of another optimizer, with its `type`, in wire spelling. */
  readonly optimizerParams?: UserMetadata;
  readonly type: "optim_step";
}
export const OptimStepRequest = message<OptimStepRequest, "type">(
  "OptimStepRequest",
  {
    adamParams: optional(AdamParams.field),
    modelId: string(),
    seqId: optional(int()),
    optimizerParams: optional(map(json())),
    type: literal("optim_step"),
  },
  {
    check: (value, fail) => {
      if ((value.adamParams ?? value.optimizerParams) === undefined) fail("adamParams", "is required");
    },
  },
);

/** The optimizer step was taken. */
export interface OptimStepResponse {
  readonly metrics?: Readonly<Record<string, number>>;
}
export const OptimStepResponse = message<OptimStepResponse>("OptimStepResponse", { metrics: optional(map(float())) });

const tensorJson = message<{
  readonly data: readonly (number | bigint)[];
  readonly dtype: TensorDtype;
  readonly shape?: readonly number[];
  readonly sparseCrowIndices?: readonly (number | bigint)[];
  readonly sparseColIndices?: readonly (number | bigint)[];
}>("TensorData", {
  data: list(
    custom<number | bigint>({ type: "number" }, (value) => {
      if (typeof value === "number" || typeof value === "bigint") return value;
      if (value === null) return Number.NaN;
      throw new FieldProblem(`must be a number, not ${describe(value)}`);
    }),
  ),
  dtype: oneOf("int64", "float32"),
  shape: optional(list(int())),
  sparseCrowIndices: optional(list(long())),
  sparseColIndices: optional(list(long())),
});

/** `TensorData` as JSON. */
export const tensorField: Field<TensorData> = custom<TensorData>(
  { type: "message", name: "TensorData" },
  (wire) => {
    const raw = tensorJson.field.fromWire(wire);
    return asFieldProblem(() => {
      if (raw.sparseCrowIndices !== undefined || raw.sparseColIndices !== undefined) {
        return TensorData.fromSparse(
          {
            values: raw.data,
            dtype: raw.dtype,
            crowIndices: raw.sparseCrowIndices ?? [],
            colIndices: raw.sparseColIndices ?? [],
            shape: raw.shape ?? [],
          },
          "",
        );
      }
      return TensorData.from(raw.data, {
        dtype: raw.dtype,
        field: "data",
        shape: raw.shape ?? [raw.data.length],
      });
    });
  },
  (value) => {
    if (!(value instanceof TensorData)) throw new FieldProblem(`must be a TensorData, not ${describe(value)}`);
    return {
      data: value.data,
      dtype: value.dtype,
      ...omitUndefined({ shape: value.shape }),
      ...(value.sparseCrowIndices === undefined
        ? {}
        : {
            sparse_crow_indices: Array.from(value.sparseCrowIndices, Number),
            sparse_col_indices: Array.from(value.sparseColIndices ?? [], Number),
          }),
    };
  },
);

/** Runs `body`; an error of a value's constructor becomes a problem of the field that holds the value. */
export function asFieldProblem<T>(body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    const problem = new FieldProblem(error.problem, error.hint);
    if (error.field !== "") problem.path.unshift(error.field);
    throw problem;
  }
}

/** The outputs of a loss for one datum: typed arrays by the service's names. */
export type DatumOutput = Readonly<Record<string, Float32Array>>;

/** The outputs of the service's losses; each loss has some of them. */
const lossOutputNames = ["logprobs", "elementwise_loss"];

function datumOutput(tensors: LossFnOutput, index: number): DatumOutput {
  const output: Record<string, Float32Array> = {};
  for (const [name, tensor] of Object.entries(tensors)) {
    const { values } = tensor.toDense();
    output[name] = values instanceof Float32Array ? values : Float32Array.from(values, Number);
  }
  for (const name of lossOutputNames.filter((known) => !Object.hasOwn(output, known))) {
    const get = (): never => {
      throw new ResponseValidationError(`loss_fn_outputs[${index}].${name}`, "is missing in the answer");
    };
    Object.defineProperty(output, name, { get, enumerable: false });
  }
  return output;
}

/** The result of a pass: tensors per datum, and metrics whose names end in their reduction (`loss:sum`). */
export class ForwardBackwardOutput {
  /** The server's name for the form of the outputs. */
  readonly lossFnOutputType: string;
  /** One map of tensors per datum, in the order of the batch. */
  readonly lossFnOutputs: readonly LossFnOutput[];
  /** By `name:reduction`, reduced over the chunks of the batch. */
  readonly metrics: Readonly<Record<string, number>>;

  constructor(parts: {
    readonly lossFnOutputType: string;
    readonly lossFnOutputs: readonly LossFnOutput[];
    readonly metrics?: Readonly<Record<string, number>>;
  }) {
    this.lossFnOutputType = parts.lossFnOutputType;
    this.lossFnOutputs = parts.lossFnOutputs;
    this.metrics = parts.metrics ?? {};
  }

  /**
   * The metric `loss:sum`, else `loss:mean`, else `undefined`. The wire has no loss field, so the value depends on the metrics that the
   * server sends.
   */
  get loss(): number | undefined {
    return this.metrics["loss:sum"] ?? this.metrics["loss:mean"];
  }

  /**
   * The outputs of the loss for each datum, by the service's names, as dense typed arrays in row-major order.
   *
   * @throws {@link ResponseValidationError} when an output of the service's losses is read that the server did not send.
   */
  get outputs(): readonly DatumOutput[] {
    return this.lossFnOutputs.map(datumOutput);
  }
}
