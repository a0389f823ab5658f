/** Adapters on disk as PEFT writes and reads them: `adapter_config.json` and `adapter_model.safetensors`. */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError, WeightsError } from "../errors.ts";
import type { AdapterState, TensorOutput } from "../types.ts";
import { openSafetensors, writeSafetensors } from "../weights/index.ts";
import { ATTENTION_LINEARS, MLP_LINEARS } from "./layout.ts";

const CONFIG_FILE = "adapter_config.json";
const WEIGHTS_FILE = "adapter_model.safetensors";

/** Writes a file so that readers see the old one or the whole new one. */
export const writeTextAtomically = async (file: string, text: string): Promise<void> => {
  const temporary = `${file}.${process.pid}.tmp`;
  await writeFile(temporary, text);
  await rename(temporary, file);
};

/** Writes a PEFT folder, creating it if need be. */
export const writePeft = async (folder: string, state: AdapterState, baseModel: string): Promise<void> => {
  const { lora } = state;
  await mkdir(folder, { recursive: true });
  await writeSafetensors(
    join(folder, WEIGHTS_FILE),
    Object.entries(state.weights).map(([name, { data, shape }]) => ({ name, dtype: "F32" as const, shape, data })),
    { format: "pt" },
  );
  const config = {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: baseModel,
    r: lora.rank,
    lora_alpha: lora.alpha,
    lora_dropout: 0,
    bias: "none",
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: null,
    use_rslora: false,
    use_dora: false,
    target_modules: [
      ...(lora.trainAttn ? ATTENTION_LINEARS : []),
      ...(lora.trainMlp ? MLP_LINEARS : []),
      ...(lora.trainUnembed ? ["lm_head"] : []),
    ],
  };
  await writeTextAtomically(join(folder, CONFIG_FILE), `${JSON.stringify(config, null, 2)}\n`);
};

const unsupported = (field: string, value: unknown): ConfigError =>
  new ConfigError(`${CONFIG_FILE}: ${field} = ${JSON.stringify(value)} is not supported`, {
    code: "unsupported_field",
    field,
  });

/**
 * The base's own tensors, which PEFT writes beside an adapter of the unembedding. LoRA does not train them, so that they say nothing new,
 * unless the vocabulary was enlarged.
 */
const BASE_TENSOR = /\.(lm_head|embed_tokens)(\.base_layer)?\.weight$/;

/**
 * Reads a PEFT folder. Which linears are adapted is read off the tensors, since `target_modules` may be a pattern; it may be fewer
 * than an adapter of this engine has (often q and v alone), which `importState` completes.
 * @throws ConfigError for what this engine cannot express (DoRA, rank-stabilised scaling, per-module ranks, biases).
 */
export const readPeft = async (folder: string): Promise<AdapterState> => {
  const text = await readFile(join(folder, CONFIG_FILE), "utf8").catch((cause: unknown) => {
    throw new WeightsError(`${folder} holds no ${CONFIG_FILE}`, { code: "no_adapter", file: folder, cause });
  });
  let config: Record<string, unknown>;
  try {
    config = JSON.parse(text) as Record<string, unknown>;
  } catch (cause) {
    throw new ConfigError(`${CONFIG_FILE} is not JSON`, { code: "bad_json", cause });
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

  const source = openSafetensors(join(folder, WEIGHTS_FILE));
  try {
    const weights: Record<string, TensorOutput> = {};
    const baseShapes: Record<string, readonly number[]> = {};
    for (const { name, shape } of source.tensors.values()) {
      if (BASE_TENSOR.test(name)) baseShapes[name] = shape;
      else weights[name] = { data: source.readFloat32(name), shape };
    }
    const touches = (linears: readonly string[]): boolean =>
      Object.keys(weights).some((name) => linears.some((linear) => name.includes(`.${linear}.lora_`)));
    return {
      lora: {
        rank,
        alpha,
        seed: 0,
        trainAttn: touches(ATTENTION_LINEARS),
        trainMlp: touches(MLP_LINEARS),
        trainUnembed: touches(["lm_head"]),
      },
      step: 0,
      weights,
      peft: { baseShapes },
    };
  } finally {
    source.close();
  }
};
