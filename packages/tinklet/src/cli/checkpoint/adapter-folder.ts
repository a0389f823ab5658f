/** Adapters that were trained anywhere: a PEFT folder becomes a checkpoint of a Tinklet server. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Context } from "../context.ts";

/** How long the server keeps an adapter that is not used again. */
const keptSeconds = 7 * 24 * 3600;

/** Whether a reference is the folder of an adapter, as PEFT and `checkpoint download` write it. */
export const isAdapterFolder = (reference: string): boolean => existsSync(join(reference, "adapter_config.json"));

/**
 * Gives the adapter to the server. The same adapter again is the same checkpoint, and its time begins anew.
 *
 * @param baseModel - the model that it belongs to; the server's only one, unless given
 * @returns the path of the checkpoint that it became
 * @throws {@link TinkerError} when the server takes none, or not this one.
 */
export async function importAdapter(folder: string, baseModel: string | undefined, context: Context): Promise<string> {
  const { output, signal } = context;
  const service = await context.service();
  output.progress(`Giving ${folder} to the server …`);
  const options = { baseModel, ttlSeconds: keptSeconds, signal };
  const { path } = await service.importAdapter(folder, options).finally(() => output.endProgress());
  return path;
}
