/**
 * Adapters as PEFT writes and reads them: `adapter_config.json` and `adapter_model.safetensors`, as a folder or as bytes. The only
 * writer of that format.
 */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { attentionLinears, mlpLinears } from "../config/tensor-shapes.ts";
import { ConfigError, WeightsError } from "../errors.ts";
import { openSafetensors } from "../weights/safetensors.ts";
import { encodeSafetensors, writeSafetensors } from "../weights/write-safetensors.ts";
import { writeTextAtomically } from "../write-text.ts";

const configFile = "adapter_config.json";
const weightsFile = "adapter_model.safetensors";

/** A dense float32 tensor of an adapter. */
export interface StateTensor {
  readonly data: Float32Array;
  /** Row-major. */
  readonly shape: readonly number[];
}

/** What is written: the scaling `alpha / rank`, and tensors under PEFT's names. */
export interface PeftAdapter {
  readonly lora: { readonly rank: number; readonly alpha: number };
  /** `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight` … to values. */
  readonly weights: Readonly<Record<string, StateTensor>>;
}

/** What a PEFT folder holds. It may adapt fewer modules than the flags in `lora` say. */
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
    /** Shapes of the base's own tensors that lie beside the adapter; they are not read. */
    readonly baseShapes: Readonly<Record<string, readonly number[]>>;
  };
}

/** The configuration that PEFT loads the adapter with. Target modules are those that have weights. */
function peftConfig({ lora, weights }: PeftAdapter, baseModel: string): string {
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

/** The files of a PEFT folder as bytes, for those who store them in their own way. */
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

/** Writes a PEFT folder, creating it if need be. */
export async function writePeft(folder: string, adapter: PeftAdapter, baseModel: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeSafetensors(
    join(folder, weightsFile),
    Object.entries(adapter.weights).map(([name, { data, shape }]) => ({ name, dtype: "F32" as const, shape, data })),
    { format: "pt" },
  );
  await writeTextAtomically(join(folder, configFile), peftConfig(adapter, baseModel));
}

function unsupported(field: string, value: unknown): ConfigError {
  return new ConfigError(`${configFile}: ${field} = ${JSON.stringify(value)} is not supported`, {
    code: "unsupported_field",
    field,
  });
}

/**
 * The base's own tensors, which PEFT writes beside an adapter of the unembedding. LoRA does not train them, so that they say nothing new,
 * unless the vocabulary was enlarged.
 */
const baseTensor = /\.(lm_head|embed_tokens)(\.base_layer)?\.weight$/;

/**
 * Reads a PEFT folder. Which linears are adapted is read off the tensors, since `target_modules` may be a pattern; it may be fewer
 * than an adapter has that is made here (often q and v alone); whoever takes it completes it.
 * @throws ConfigError for what cannot be expressed here (DoRA, rank-stabilised scaling, per-module ranks, biases).
 */
export async function readPeft(folder: string): Promise<PeftState> {
  const text = await readFile(join(folder, configFile), "utf8").catch((cause: unknown) => {
    throw new WeightsError(`${folder} holds no ${configFile}`, { code: "no_adapter", file: folder, cause });
  });
  let config: Record<string, unknown>;
  try {
    config = JSON.parse(text) as Record<string, unknown>;
  } catch (cause) {
    throw new ConfigError(`${configFile} is not JSON`, { code: "bad_json", cause });
  }
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

  const source = openSafetensors(join(folder, weightsFile));
  try {
    const weights: Record<string, StateTensor> = {};
    const baseShapes: Record<string, readonly number[]> = {};
    for (const { name, shape } of source.tensors.values()) {
      if (baseTensor.test(name)) baseShapes[name] = shape;
      else weights[name] = { data: source.readFloat32(name), shape };
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
