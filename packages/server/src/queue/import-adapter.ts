/**
 * A PEFT folder as an adapter of this server: read by the engine, brought to the scaling that every model here has, completed where
 * PEFT adapted fewer modules than our switches name, and checked against the base model. What PEFT can express and LoRA training
 * here cannot (DoRA, rank patterns, biases) is refused by the engine in its own words.
 */
import {
  type AdapterState,
  type Engine,
  InputError,
  type LoraOptions,
  type ModelInfo,
  type TensorOutput,
} from "@tinklet/engine";

/** What `create_model` gives every adapter; a checkpoint with another could not be loaded into a model made by it. */
export const servedAlpha = 32;

/**
 * The state of an adapter in a PEFT folder, with every matrix that its configuration names. Modules that the folder leaves out get a
 * fresh A and a zero B: they add nothing until they are trained.
 *
 * @throws EngineError naming what does not fit.
 */
export async function readPeftAdapter(engine: Engine, folder: string, maxRank: number): Promise<AdapterState> {
  const read = await engine.readPeft(folder);
  if (read.lora.rank > maxRank) throw new InputError("r", `${read.lora.rank} is more than the ${maxRank} allowed`);
  const lora: Required<LoraOptions> = { ...read.lora, alpha: servedAlpha };
  const { adapterId } = await engine.createAdapter(lora);
  let blank: AdapterState;
  try {
    blank = await engine.exportState(adapterId, { optimizer: false });
  } finally {
    await engine.deleteAdapter(adapterId);
  }
  // scale is alpha / rank: the same product with our alpha needs the ratio in one of the factors
  const ratio = read.lora.alpha / servedAlpha;
  const weights: Record<string, TensorOutput> = { ...blank.weights };
  for (const [name, { data, shape }] of Object.entries(read.weights)) {
    if (isBaseWeight(name, shape, engine.info)) continue;
    const scaled = ratio !== 1 && name.endsWith(".lora_B.weight");
    weights[name] = { shape, data: scaled ? Float32Array.from(data, (value) => value * ratio) : data };
  }
  return { lora, step: 0, weights };
}

/**
 * Whether a tensor is one of the base's own, which PEFT writes beside the adapter when the unembedding is adapted. LoRA does not train
 * it, so it says nothing new, unless the vocabulary was enlarged.
 */
function isBaseWeight(name: string, shape: readonly number[], { vocabSize, hiddenSize }: ModelInfo): boolean {
  if (!/\.(lm_head(\.base_layer)?|embed_tokens(\.base_layer)?)\.weight$/.test(name)) return false;
  if (shape[0] === vocabSize && shape[1] === hiddenSize) return true;
  throw new InputError(name, `has shape [${shape.join(", ")}], and this base model's is [${vocabSize}, ${hiddenSize}]`);
}
