/**
 * A PEFT folder as an adapter of this server: read by the engine, brought to the scaling that every model here has, completed where
 * PEFT adapted fewer modules than our switches name, and checked against the base model. What PEFT can express and LoRA training
 * here cannot (DoRA, rank patterns, biases) is refused by the engine in its own words.
 */
import { type AdapterState, type Engine, InputError, type LoraOptions, type TensorOutput } from "@tinklet/engine";

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
    const scaled = ratio !== 1 && name.endsWith(".lora_B.weight");
    weights[name] = { shape, data: scaled ? Float32Array.from(data, (value) => value * ratio) : data };
  }
  return { lora, step: 0, weights };
}
