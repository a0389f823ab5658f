/**
 * The two forms of an adapter folder, which differ in the name of the unembedding. PEFT and vLLM look up the module `lm_head` of
 * transformers' models. `weights.build_hf_model` of the official cookbook looks up the tensor `lm_head.weight` of the base model, which a
 * model with tied embeddings does not have; it maps the Tinker service's own name `model.unembed_tokens` to the tied embedding instead. No
 * file satisfies both: each reader rejects or ignores the other's name.
 */
import { join } from "node:path";
import { ConfigError } from "../errors.ts";
import { renameTensors } from "../weights/rename-tensors.ts";
import { readSmallText } from "../weights/weight-file.ts";
import { writeTextAtomically } from "../write-text.ts";

/** `peft`: names of PEFT, vLLM and transformers; `tinker`: names of the Tinker service, which the official cookbook merges. */
export type AdapterNames = "peft" | "tinker";

const unembedding = {
  peft: { tensor: "base_model.model.lm_head.", module: "lm_head" },
  tinker: { tensor: "base_model.model.model.unembed_tokens.", module: "unembed_tokens" },
} as const;

/** Limit of `adapter_config.json` in bytes. */
const configBytes = 16 * 1024 * 1024;

/**
 * Renames the unembedding in an adapter folder (`adapter_config.json`, `adapter_model.safetensors`). Values are copied bit for bit. A folder
 * that has the names already, or that does not adapt the unembedding, is left as it is.
 *
 * @returns whether the folder was changed
 */
export async function renameAdapter(folder: string, names: AdapterNames): Promise<boolean> {
  const [to, from] = [unembedding[names], unembedding[names === "peft" ? "tinker" : "peft"]];
  const changed = await renameTensors(join(folder, "adapter_model.safetensors"), (name) =>
    name.startsWith(`${from.tensor}lora_`) ? to.tensor + name.slice(from.tensor.length) : name,
  );
  // The names in the settings are checked in any case: an earlier call may have ended between the two files.
  const path = join(folder, "adapter_config.json");
  let config: { target_modules?: unknown };
  try {
    config = JSON.parse(readSmallText(path, configBytes)) as { target_modules?: unknown };
  } catch (cause) {
    throw new ConfigError(`${path} is not JSON`, { code: "bad_json", cause });
  }
  const { target_modules: modules } = config;
  if (Array.isArray(modules) && modules.includes(from.module)) {
    const target_modules = modules.map((module: unknown) => (module === from.module ? to.module : module));
    await writeTextAtomically(path, `${JSON.stringify({ ...config, target_modules }, null, 2)}\n`);
    return true;
  }
  return changed;
}
