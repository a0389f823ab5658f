/** Settings of `huggingface_hub` from the environment: endpoint, token and cache folder. */

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { HubAccess } from "./hub-client.ts";

/** Settings of the Hugging Face Hub. */
export interface HubSettings extends HubAccess {
  /** The folder that holds `models--org--name`. */
  readonly cacheDir: string;
  readonly offline: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;
const isOn = (value: string | undefined): boolean => /^(?:1|true|yes|on)$/i.test(value ?? "");

/** The default endpoint. */
export const publicEndpoint = "https://huggingface.co";

/**
 * Reads `HF_ENDPOINT`, `HF_HOME`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`, `HF_TOKEN`, `HF_TOKEN_PATH` and the token that
 * `hf auth login` saved. An empty variable counts as unset.
 */
export function hubSettings(
  options: { readonly cacheDir?: string | undefined; readonly offline?: boolean | undefined } = {},
  env: Environment = process.env,
): HubSettings {
  const home = env["HF_HOME"] || join(env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "huggingface");
  const token = env["HF_TOKEN"]?.trim() || savedToken(env["HF_TOKEN_PATH"] || join(home, "token"));
  return {
    endpoint: (env["HF_ENDPOINT"] || publicEndpoint).replace(/\/+$/, ""),
    ...(token && { token }),
    cacheDir: options.cacheDir ?? (env["HF_HUB_CACHE"] || join(home, "hub")),
    offline: options.offline ?? (isOn(env["HF_HUB_OFFLINE"]) || isOn(env["TRANSFORMERS_OFFLINE"])),
  };
}

function savedToken(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return undefined; // no saved login
  }
}
