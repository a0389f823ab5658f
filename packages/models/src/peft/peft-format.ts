/**
 * The format of PEFT adapters, `adapter_config.json` and `adapter_model.safetensors`, as bytes: encoding, and reading with all checks. The
 * folder on disk is in `peft.ts`.
 */
import type { ModelConfig } from "../config/read-config.ts";
import { attentionLinears, mlpLinears, sameShape, weightShapes } from "../config/tensor-shapes.ts";
import { ConfigError, WeightsError } from "../errors.ts";
import { bytesInMemory } from "../weights/byte-source.ts";
import { encodeSafetensors } from "../weights/encode-safetensors.ts";
import { safetensorsSource } from "../weights/safetensors.ts";
import type { TensorInfo, WeightSource } from "../weights/types.ts";

export const configFile = "adapter_config.json";
export const weightsFile = "adapter_model.safetensors";

/** A dense float32 tensor of an adapter. */
export interface StateTensor {
  readonly data: Float32Array;
  /** Row-major. */
  readonly shape: readonly number[];
}

/** An adapter: rank and alpha (see `loraScale`), and tensors with PEFT's names. */
export interface PeftAdapter {
  readonly lora: { readonly rank: number; readonly alpha: number };
  /** Tensors by name, for example `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`. */
  readonly weights: Readonly<Record<string, StateTensor>>;
}

/** The contents of a PEFT folder. It may adapt fewer modules than the flags in `lora` enable. */
export interface PeftState extends PeftAdapter {
  readonly lora: {
    readonly rank: number;
    readonly alpha: number;
    readonly seed: number;
    readonly trainAttn: boolean;
    readonly trainMlp: boolean;
    readonly trainUnembed: boolean;
  };
  readonly step: number;
  readonly peft: {
    /** Shapes of base model tensors saved with the adapter; their values are not read. */
    readonly baseShapes: Readonly<Record<string, readonly number[]>>;
  };
}

/** The `adapter_config.json` of an adapter. Its target modules are the modules with weights. */
export function peftConfig({ lora, weights }: PeftAdapter, baseModel: string): string {
  const modules = new Set<string>();
  for (const name of Object.keys(weights)) {
    const module = /([^.]+)\.lora_[AB]\.weight$/.exec(name)?.[1];
    if (module !== undefined) modules.add(module);
  }
  const config = {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: baseModel,
    r: lora.rank,
    lora_alpha: lora.alpha,
    lora_dropout: 0,
    target_modules: [...modules].sort(),
    bias: "none",
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: null,
    use_rslora: false,
    use_dora: false,
  };
  return `${JSON.stringify(config, null, 2)}\n`;
}

/** The files of a PEFT folder as bytes, for callers with their own storage. */
export function peftFiles(
  adapter: PeftAdapter,
  baseModel: string,
): readonly { readonly name: string; readonly parts: readonly Uint8Array[] }[] {
  const tensors = Object.entries(adapter.weights).map(([name, { data, shape }]) => ({ name, data, shape }));
  return [
    { name: configFile, parts: [new TextEncoder().encode(peftConfig(adapter, baseModel))] },
    { name: weightsFile, parts: encodeSafetensors(tensors, { format: "pt" }) },
  ];
}

function unsupported(field: string, value: unknown): ConfigError {
  const shown = JSON.stringify(value) ?? "undefined";
  return new ConfigError(`${configFile}: ${field} = ${shown.slice(0, 100)} is not supported`, {
    code: "unsupported_field",
    field,
  });
}

/**
 * Base model tensors that PEFT saves with an adapter of the unembedding. LoRA does not train them, so they are redundant unless the
 * vocabulary was resized.
 */
const baseTensor = /\.(lm_head|embed_tokens)(\.base_layer)?\.weight$/;

/** The base model of an adapter, and the maximum rank. */
export interface PeftBase {
  readonly config: ModelConfig;
  /** @defaultValue no limit */
  readonly maxRank?: number | undefined;
}

/** Size limits of the files of a PEFT folder, in bytes. */
export interface PeftBounds {
  readonly configBytes: number;
  /** The JSON header of the safetensors file. */
  readonly headerBytes: number;
  readonly weightsBytes: number;
}

/** Bytes of JSON that do not depend on the number of linear layers. */
const fixedBytes = 64 * 1024;
/** Maximum number of base model tensors saved with an adapter: variants of the embedding and the unembedding. */
const mostBaseTensors = 4;

/** Size limits for adapters of a model, so that oversized files from outside are rejected before they are read. */
export function peftBounds({ config, maxRank = Number.POSITIVE_INFINITY }: PeftBase): PeftBounds {
  const linears = [...adaptable(config).values()];
  const tensors = 2 * linears.length + mostBaseTensors;
  const headerBytes = fixedBytes + tensors * 512;
  const values = linears.reduce((sum, [outSize, inSize]) => sum + maxRank * (outSize + inSize), 0);
  const base = mostBaseTensors * config.vocabSize * config.hiddenSize;
  const weightsBytes = 8 + headerBytes + (values + base) * Float32Array.BYTES_PER_ELEMENT;
  return { configBytes: fixedBytes + linears.length * 256, headerBytes, weightsBytes };
}

/** Output and input size of each adaptable linear layer, by name without `.weight`. */
function adaptable(config: ModelConfig): Map<string, readonly [number, number]> {
  const { vocabSize, hiddenSize } = config;
  const linears = new Map<string, readonly [number, number]>([["lm_head", [vocabSize, hiddenSize]]]);
  for (const [name, shape] of weightShapes(config)) {
    if (shape.length === 2 && name.startsWith("model.layers.")) {
      linears.set(name.slice(0, -".weight".length), shape as [number, number]);
    }
  }
  return linears;
}

/**
 * The name of a tensor in PEFT's form. Archives of the Tinker service call the unembedding `model.unembed_tokens`, which is not a module
 * of transformers' models.
 */
const peftName = (name: string): string =>
  name.replace(/^base_model\.model\.model\.unembed_tokens\.lora_/, "base_model.model.lm_head.lora_");

/** @throws WeightsError for the first tensor that cannot belong to an adapter of this rank; checked before any tensor is read */
function checkTensors(tensors: Iterable<TensorInfo>, rank: number, { config, maxRank }: PeftBase): void {
  if (maxRank !== undefined && rank > maxRank) {
    const message = `${configFile}: r must be at most ${maxRank}, got ${rank}`;
    throw new ConfigError(message, { code: "unsupported_field", field: "r" });
  }
  const linears = adaptable(config);
  for (const { name, shape } of tensors) {
    if (baseTensor.test(name)) continue;
    const [, module = "", side] = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/.exec(peftName(name)) ?? [];
    const linear = linears.get(module);
    if (linear === undefined) {
      const message = `tensor ${name.slice(0, 200)} does not belong to an adapter of this model`;
      throw new WeightsError(message, { code: "stray_tensor", tensor: name });
    }
    const expected = side === "A" ? [rank, linear[1]] : [linear[0], rank];
    if (sameShape(shape, expected)) continue;
    throw new WeightsError(`tensor ${name} has shape [${shape.join(", ")}] instead of [${expected.join(", ")}]`, {
      code: "shape_mismatch",
      tensor: name,
      hint: "the adapter was trained on another base model or with another rank",
    });
  }
}

/** The settings of an adapter that its tensors do not show. */
interface PeftSettings {
  readonly rank: number;
  readonly alpha: number;
}

/** @throws ConfigError for text that is not JSON, and for settings that are not supported */
export function readPeftConfig(text: string): PeftSettings {
  let config: Record<string, unknown>;
  try {
    config = JSON.parse(text) as Record<string, unknown>;
  } catch (cause) {
    throw new ConfigError(`${configFile} is not JSON`, { code: "bad_json", cause });
  }
  if (typeof config !== "object" || config === null)
    throw new ConfigError(`${configFile} must be a JSON object`, { code: "bad_json" });
  if (config["peft_type"] !== "LORA") throw unsupported("peft_type", config["peft_type"]);
  for (const field of ["use_dora", "use_rslora", "fan_in_fan_out"])
    if (config[field] === true) throw unsupported(field, true);
  for (const field of ["rank_pattern", "alpha_pattern", "modules_to_save", "trainable_token_indices"]) {
    const value = config[field];
    if (value && Object.keys(value).length > 0) throw unsupported(field, value);
  }
  if (config["bias"] !== undefined && config["bias"] !== "none") throw unsupported("bias", config["bias"]);
  const [rank, alpha] = [config["r"], config["lora_alpha"]];
  if (typeof rank !== "number") throw unsupported("r", rank);
  if (typeof alpha !== "number") throw unsupported("lora_alpha", alpha);
  return { rank, alpha };
}

/** The adapter whose tensors are in `source`; closes the source. @throws WeightsError */
export function readPeftTensors(source: WeightSource, { rank, alpha }: PeftSettings, base?: PeftBase): PeftState {
  try {
    if (base !== undefined) checkTensors(source.tensors.values(), rank, base);
    const weights: Record<string, StateTensor> = {};
    const baseShapes: Record<string, readonly number[]> = {};
    for (const { name, shape } of source.tensors.values()) {
      const known = peftName(name);
      if (baseTensor.test(name)) baseShapes[name] = shape;
      else if (Object.hasOwn(weights, known)) {
        const message = `tensor ${name} is present twice, under PEFT's name lm_head and the Tinker service's name unembed_tokens`;
        throw new WeightsError(message, { code: "stray_tensor", tensor: name });
      } else weights[known] = { data: source.readFloat32(name), shape };
    }
    const touches = (linears: readonly string[]): boolean =>
      Object.keys(weights).some((name) => linears.some((linear) => name.includes(`.${linear}.lora_`)));
    return {
      lora: {
        rank,
        alpha,
        seed: 0,
        trainAttn: touches(attentionLinears),
        trainMlp: touches(mlpLinears),
        trainUnembed: touches(["lm_head"]),
      },
      step: 0,
      weights,
      peft: { baseShapes },
    };
  } finally {
    source.close();
  }
}

/**
 * Reads the files of a PEFT folder from memory, with the checks of `readPeft`.
 *
 * @param files - the contents of `adapter_config.json` and `adapter_model.safetensors`, by name
 * @throws ConfigError for settings that are not supported; WeightsError for files that are missing, damaged, too large, or belong to
 *   another model.
 */
export function readPeftFiles(files: Readonly<Record<string, Uint8Array>>, base: PeftBase): PeftState {
  const bounds = peftBounds(base);
  const file = (name: string, mostBytes: number): Uint8Array => {
    const bytes = Object.hasOwn(files, name) ? files[name] : undefined;
    if (bytes === undefined) throw new WeightsError(`the adapter has no ${name}`, { code: "no_adapter", file: name });
    if (bytes.byteLength <= mostBytes) return bytes;
    const message = `${name} must have at most ${mostBytes} bytes, got ${bytes.byteLength}`;
    throw new WeightsError(message, { code: "too_large", file: name });
  };
  const settings = readPeftConfig(new TextDecoder().decode(file(configFile, bounds.configBytes)));
  const weights = bytesInMemory(file(weightsFile, bounds.weightsBytes), weightsFile);
  return readPeftTensors(safetensorsSource(weights, bounds.headerBytes), settings, base);
}
