/** Imports PEFT adapter folders as checkpoints of a Tinklet server. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Context } from "../context.ts";

/** Lifetime of an imported adapter on the server, counted from its last import. */
const keptSeconds = 7 * 24 * 3600;

/** Whether a reference is an adapter folder as PEFT and `checkpoint download` write it. */
export const isAdapterFolder = (reference: string): boolean => existsSync(join(reference, "adapter_config.json"));

/**
 * Uploads the adapter. Uploading the same adapter again gives the same checkpoint and restarts its lifetime.
 *
 * @param baseModel - the adapter's base model. Default: the server's only model
 * @returns the `tinker://` path of the checkpoint
 * @throws {@link TinkerError} when the server does not support imports or rejects the adapter
 */
export async function importAdapter(folder: string, baseModel: string | undefined, context: Context): Promise<string> {
  const { output, signal } = context;
  const service = await context.service();
  output.progress(`Importing ${folder} …`);
  const options = { baseModel, ttlSeconds: keptSeconds, signal };
  const { path } = await service.importAdapter(folder, options).finally(() => output.endProgress());
  return path;
}
