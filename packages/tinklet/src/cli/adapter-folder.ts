/** Adapters that were trained anywhere: a PEFT folder becomes a checkpoint of a Tinklet server. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { Context } from "./context.ts";
import { CliError } from "./explain.ts";

const files = ["adapter_config.json", "adapter_model.safetensors"] as const;

/** Whether a reference is the folder of an adapter, as PEFT and `checkpoint download` write it. */
export const isAdapterFolder = (reference: string): boolean => existsSync(join(reference, files[0]));

/**
 * Gives the adapter to the server.
 *
 * @param baseModel - the model that it belongs to; the server's only one, unless given
 * @returns the path of the checkpoint that it became
 * @throws {@link CliError} when the server takes none, or not this one.
 */
export async function importAdapter(folder: string, baseModel: string | undefined, context: Context): Promise<string> {
  const form = new FormData();
  for (const name of files) {
    const bytes = await readFile(join(folder, name)).catch((cause: Error) => {
      throw new CliError(`${join(folder, name)} could not be read: ${cause.message}`, { cause });
    });
    form.set(name, new Blob([new Uint8Array(bytes)]), name);
  }
  const name = basename(resolve(folder)).replace(/[^\w.-]/g, "-");
  form.set("name", name);
  if (baseModel !== undefined) form.set("base_model", baseModel);
  context.output.progress(`Giving ${folder} to the server …`);
  const response = await context.ask("import_adapter", { method: "POST", body: form, signal: context.signal });
  context.output.endProgress();
  const answer = (await response.json().catch(() => ({}))) as { tinker_path?: string; detail?: string; error?: string };
  if (response.ok && answer.tinker_path !== undefined) return answer.tinker_path;
  if (response.status === 404) {
    throw new CliError("This server takes no adapters from a folder.", {
      hint: "Only Tinklet's own server does: add --local, or start one with tinklet serve.",
    });
  }
  throw new CliError(`The adapter in ${folder} was not taken: ${answer.detail ?? answer.error ?? response.status}`);
}
