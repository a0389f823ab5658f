/**
 * Reads a Hugging Face `config.json` into the values that determine the computation. A setting that would change the result and is not
 * supported (another activation, sliding windows, experts, quantisation, an unknown rope scaling, …) is a ConfigError that names the field,
 * so that a model that loads computes the same function as in transformers.
 */
import { ConfigError } from "../errors.ts";
import { endOfTextIds } from "./end-of-text.ts";

/** How rotary frequencies are stretched for long contexts. */
export type RopeScaling =
  | { readonly type: "default" }
  | { readonly type: "linear"; readonly factor: number }
  | {
      readonly type: "llama3";
      readonly factor: number;
      readonly lowFreqFactor: number;
      readonly highFreqFactor: number;
      readonly originalContextLength: number;
    };

export interface ModelConfig {
  readonly architecture: "llama" | "mistral" | "qwen2" | "qwen3";
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly mlpSize: number;
  readonly normEpsilon: number;
  readonly ropeTheta: number;
  readonly ropeScaling: RopeScaling;
  readonly contextLength: number;
  readonly tiedEmbeddings: boolean;
  /** RMSNorm on each head of q and k (Qwen3). */
  readonly qkNorm: boolean;
  readonly qkvBias: boolean;
  readonly outputBias: boolean;
  readonly mlpBias: boolean;
  readonly eosTokenIds: readonly number[];
}

type Json = Readonly<Record<string, unknown>>;

const architectures = ["llama", "mistral", "qwen2", "qwen3"] as const;

function unsupported(field: string, value: unknown, hint?: string): ConfigError {
  return new ConfigError(`config.json: ${field} = ${JSON.stringify(value)} is not supported`, {
    code: "unsupported_field",
    field,
    ...(hint ? { hint } : {}),
  });
}

function positive(config: Json, field: string, fallback?: number): number {
  const value = config[field] ?? fallback;
  if (typeof value !== "number" || !Number.isFinite(value) || value <= 0) {
    throw new ConfigError(`config.json: ${field} must be a positive number, got ${JSON.stringify(value)}`, {
      code: "bad_field",
      field,
    });
  }
  return value;
}

function integer(config: Json, field: string, fallback?: number): number {
  const value = positive(config, field, fallback);
  if (!Number.isInteger(value)) throw unsupported(field, value, "it must be an integer");
  return value;
}

function withoutUndefined(file: Json): Json {
  return Object.fromEntries(Object.entries(file).filter(([, value]) => value !== undefined));
}

/** Values that a field may have without changing the computation; any other value is rejected. */
const neutralValues: Readonly<Record<string, readonly unknown[]>> = {
  hidden_act: ["silu"],
  use_sliding_window: [false],
  partial_rotary_factor: [1],
  attention_multiplier: [1],
  embedding_multiplier: [1],
  residual_multiplier: [1],
  logits_scaling: [1],
  attn_logit_softcapping: [],
  final_logit_softcapping: [],
  quantization_config: [],
  num_experts: [0],
  num_local_experts: [0],
  num_nextn_predict_layers: [0],
};

/** transformers' defaults for absent keys. A key that is present and null is not replaced. */
const absentValues: Readonly<Record<ModelConfig["architecture"], Json>> = {
  llama: { max_position_embeddings: 2048 },
  mistral: { max_position_embeddings: 131_072, num_key_value_heads: 8, sliding_window: 4096 },
  qwen2: { max_position_embeddings: 32_768, num_key_value_heads: 32 },
  qwen3: { max_position_embeddings: 32_768, num_key_value_heads: 32, head_dim: 128 },
};

function readRope(config: Json): { theta: number; scaling: RopeScaling } {
  // Older files have rope_theta and rope_scaling; newer files put both into rope_parameters.
  const field = config["rope_parameters"] ? "rope_parameters" : "rope_scaling";
  const scaling = (config[field] ?? {}) as Json;
  const theta = positive({ rope_theta: scaling["rope_theta"] ?? config["rope_theta"] }, "rope_theta", 10_000);
  const type = String(scaling["rope_type"] ?? scaling["type"] ?? "default");
  const number = (key: string): number => positive({ [`${field}.${key}`]: scaling[key] }, `${field}.${key}`);
  switch (type) {
    case "default":
      return { theta, scaling: { type } };
    case "linear":
      return { theta, scaling: { type, factor: number("factor") } };
    case "llama3":
      return {
        theta,
        scaling: {
          type,
          factor: number("factor"),
          lowFreqFactor: number("low_freq_factor"),
          highFreqFactor: number("high_freq_factor"),
          originalContextLength: number("original_max_position_embeddings"),
        },
      };
    default:
      throw unsupported(`${field}.rope_type`, type, "supported are default, linear and llama3");
  }
}

/**
 * @throws ConfigError naming the field that is missing, malformed or unsupported.
 */
export function readConfig(file: Json): ModelConfig {
  const modelType = file["model_type"];
  const architecture = architectures.find((name) => name === modelType);
  if (!architecture) throw unsupported("model_type", modelType, `supported are ${architectures.join(", ")}`);
  const config: Json = { ...absentValues[architecture], ...withoutUndefined(file) };
  for (const [field, allowed] of Object.entries(neutralValues)) {
    const value = config[field];
    if (value !== undefined && value !== null && !allowed.includes(value)) throw unsupported(field, value);
  }
  const contextLength = integer(config, "max_position_embeddings");
  const window = config["sliding_window"];
  // Qwen files contain a window that use_sliding_window (checked above) turns off; in Mistral files the number itself applies, and null
  // turns it off.
  if (architecture === "mistral" && typeof window === "number" && window < contextLength) {
    const isAbsent = file["sliding_window"] === undefined;
    const hint = isAbsent
      ? "this is the default when the field is absent; set it to null for full attention"
      : "only full attention is supported";
    throw unsupported("sliding_window", window, hint);
  }
  const layerTypes = config["layer_types"];
  if (Array.isArray(layerTypes)) {
    const other = layerTypes.find((type) => type !== "full_attention");
    if (other !== undefined) throw unsupported("layer_types", other);
  }
  const hiddenSize = integer(config, "hidden_size");
  const heads = integer(config, "num_attention_heads");
  const kvHeads = integer(config, "num_key_value_heads", heads);
  const headDim = integer(config, "head_dim", hiddenSize / heads);
  if (heads % kvHeads !== 0)
    throw unsupported("num_key_value_heads", kvHeads, `it must divide num_attention_heads = ${heads}`);
  if (headDim % 2 !== 0) throw unsupported("head_dim", headDim, "rotary embeddings need an even head_dim");
  const { theta, scaling } = readRope(config);
  const attentionBias = config["attention_bias"] === true;
  return {
    architecture,
    vocabSize: integer(config, "vocab_size"),
    hiddenSize,
    layers: integer(config, "num_hidden_layers"),
    heads,
    kvHeads,
    headDim,
    mlpSize: integer(config, "intermediate_size"),
    normEpsilon: positive(config, "rms_norm_eps", 1e-6),
    ropeTheta: theta,
    ropeScaling: scaling,
    contextLength,
    tiedEmbeddings: config["tie_word_embeddings"] === true,
    qkNorm: architecture === "qwen3",
    qkvBias: architecture === "qwen2" || attentionBias,
    outputBias: architecture !== "qwen2" && attentionBias,
    mlpBias: architecture === "llama" && config["mlp_bias"] === true,
    eosTokenIds: endOfTextIds(config["eos_token_id"]),
  };
}
