/** Where the Hub is and where its cache lies: the environment variables of `huggingface_hub`, read in one place. */

import { homedir } from "node:os";
import { join } from "node:path";

export interface HubSettings {
  /** Without a trailing slash. */
  readonly endpoint: string;
  readonly token?: string;
  /** The folder that holds `models--org--name`. */
  readonly cacheDir: string;
  readonly offline: boolean;
}

export function hubSettings(
  options: { cacheDir?: string; offline?: boolean } = {},
  env: Readonly<Record<string, string | undefined>> = process.env,
): HubSettings {
  const home = env["HF_HOME"] || join(env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "huggingface");
  const token = env["HF_TOKEN"]?.trim();
  return {
    endpoint: (env["HF_ENDPOINT"] || "https://huggingface.co").replace(/\/+$/, ""),
    ...(token && { token }),
    cacheDir: options.cacheDir ?? (env["HF_HUB_CACHE"] || join(home, "hub")),
    offline: options.offline ?? /^(?:1|true|yes|on)$/i.test(env["HF_HUB_OFFLINE"] ?? ""),
  };
}
