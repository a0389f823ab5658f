/**
 * Imports an adapter from a PEFT folder: a separate thread reads it and checks it against the base model, the engine adds missing matrices,
 * and the weights are scaled to this server's alpha. PEFT features that the engine does not support (DoRA, rank patterns, biases) are
 * rejected with a reason.
 */
import { type AdapterState, type Engine, ModelError, type TensorOutput, yieldToEventLoop } from "@tinklet/engine";
import type { PeftBase, PeftState } from "@tinklet/models";
import { type SideThread, TaskError, ThreadDied } from "../../thread/side-thread.ts";

/** The alpha of every adapter that `create_model` creates. A checkpoint with another alpha could not be loaded into such a model. */
export const servedAlpha = 32;

/** Reads an adapter folder in a separate thread. @throws ModelError naming the problem */
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
 * The state of a PEFT adapter with every matrix that its configuration names: the engine adds missing matrices on import, so importing and
 * exporting completes the state. Added modules do not change the output until they are trained.
 *
 * @throws EngineError naming what does not match.
 */
export async function completeAdapter(engine: Engine, read: PeftState): Promise<AdapterState> {
  const { adapterId } = await engine.importState(read);
  let whole: AdapterState;
  try {
    whole = await engine.exportState(adapterId, { optimizer: false });
  } finally {
    await engine.deleteAdapter(adapterId);
  }
  // The scale is alpha / rank. With servedAlpha, lora_B must absorb the ratio of the alphas for the same product.
  const ratio = whole.lora.alpha / servedAlpha;
  const weights: Record<string, TensorOutput> = {};
  for (const [name, { data, shape }] of Object.entries(whole.weights)) {
    const scaled = ratio !== 1 && name.endsWith(".lora_B.weight");
    weights[name] = { shape, data: scaled ? await times(data, ratio) : data };
  }
  return { lora: { ...whole.lora, alpha: servedAlpha }, step: 0, weights };
}

/** Values multiplied per turn of the event loop: some milliseconds. */
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
