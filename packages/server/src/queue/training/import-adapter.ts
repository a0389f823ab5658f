/**
 * A PEFT folder as an adapter of this server: read and checked against the base model by a thread of its own, completed by the engine, and
 * brought to the scaling that every model here has. What PEFT can express and LoRA training here cannot (DoRA, rank patterns, biases) is
 * refused with its reason.
 */
import { type AdapterState, type Engine, ModelError, type TensorOutput, yieldToEventLoop } from "@tinklet/engine";
import type { PeftBase, PeftState } from "@tinklet/models";
import { type SideThread, TaskError, ThreadDied } from "../../thread/side-thread.ts";

/** What `create_model` gives every adapter; a checkpoint with another could not be loaded into a model made by it. */
export const servedAlpha = 32;

/** An adapter in a folder, read beside the engine. @throws ModelError naming what is wrong with it */
export async function readPeftFolder(thread: SideThread, folder: string, base: PeftBase): Promise<PeftState> {
  try {
    return await thread.run("readPeft", { folder, base });
  } catch (error) {
    if (error instanceof TaskError && /^(Config|Weights)Error$/.test(error.task)) {
      throw new ModelError("bad_adapter", error.message, { cause: error });
    }
    if (error instanceof ThreadDied) {
      throw new ModelError("bad_adapter", "there is not enough memory to read the adapter", { cause: error });
    }
    throw error;
  }
}

/**
 * The state of an adapter that was read from a PEFT folder, with every matrix that its configuration names: the engine completes what it
 * imports, so the state is what comes out again. Modules that the folder leaves out add nothing until they are trained.
 *
 * @throws EngineError naming what does not fit.
 */
export async function completeAdapter(engine: Engine, read: PeftState): Promise<AdapterState> {
  const { adapterId } = await engine.importState(read);
  let whole: AdapterState;
  try {
    whole = await engine.exportState(adapterId, { optimizer: false });
  } finally {
    await engine.deleteAdapter(adapterId);
  }
  // scale is alpha / rank: the same product with our alpha needs the ratio in one of the factors
  const ratio = whole.lora.alpha / servedAlpha;
  const weights: Record<string, TensorOutput> = {};
  for (const [name, { data, shape }] of Object.entries(whole.weights)) {
    const scaled = ratio !== 1 && name.endsWith(".lora_B.weight");
    weights[name] = { shape, data: scaled ? await times(data, ratio) : data };
  }
  return { lora: { ...whole.lora, alpha: servedAlpha }, step: 0, weights };
}

/** Values multiplied in one turn of the event loop: some milliseconds. */
const pieceLength = 1 << 20;

async function times(values: Float32Array, factor: number): Promise<Float32Array> {
  const product = new Float32Array(values.length);
  for (let at = 0; at < values.length; at += pieceLength) {
    const end = Math.min(at + pieceLength, values.length);
    await yieldToEventLoop();
    for (let i = at; i < end; i++) product[i] = values[i]! * factor;
  }
  return product;
}
