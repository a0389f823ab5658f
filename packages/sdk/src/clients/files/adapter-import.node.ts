/** Uploads a PEFT folder to a Tinklet server as a checkpoint. Node only, loaded when first needed. */

import { parseJson } from "@tinklet/wire/client";
import { type Hint, TinkerError } from "@tinklet/wire/errors";
import { nodeBuiltin } from "../../node-builtin.ts";
import type { Session } from "../session/session.ts";

const { readFile } = nodeBuiltin<typeof import("node:fs/promises")>("node:fs/promises");
const { basename, join, resolve } = nodeBuiltin<typeof import("node:path")>("node:path");

/** The files of a PEFT folder that are uploaded. */
const files = ["adapter_config.json", "adapter_model.safetensors"] as const;
/** Timeout of the upload; long, because the server checks every tensor before it responds. */
const importTimeoutMs = 600_000;

const failed = (message: string, options: { readonly hint?: Hint; readonly cause?: unknown } = {}) =>
  new TinkerError(message, { code: "import_failed", ...options });

/** @returns the path of the new checkpoint. */
export async function importAdapterFolder(
  session: Session,
  folder: string,
  options: {
    readonly baseModel?: string | undefined;
    readonly name?: string | undefined;
    readonly ttlSeconds?: number | undefined;
  },
  signal: AbortSignal | undefined,
): Promise<string> {
  const form = new FormData();
  for (const name of files) {
    const bytes = await readFile(join(folder, name)).catch((cause: Error) => {
      throw failed(`${join(folder, name)} could not be read: ${cause.message}`, { cause });
    });
    form.set(name, new Blob([bytes as Uint8Array<ArrayBuffer>]), name);
  }
  form.set("name", options.name ?? basename(resolve(folder)).replace(/[^\w.-]/g, "-"));
  if (options.baseModel !== undefined) form.set("base_model", options.baseModel);
  if (options.ttlSeconds !== undefined) form.set("ttl_seconds", String(options.ttlSeconds));
  const encoded = new Response(form);
  const response = await session.transport.ask(
    {
      method: "POST",
      path: "/tinklet/import_adapter",
      body: new Uint8Array(await encoded.arrayBuffer()),
      contentType: encoded.headers.get("content-type") ?? undefined,
      pool: "train",
      timeoutMs: importTimeoutMs,
    },
    { signal },
  );
  const answer = readAnswer(response.body);
  if (response.status === 200 && answer.tinker_path !== undefined) return answer.tinker_path;
  if (response.status === 404) {
    throw failed("This server does not support importing adapters.", {
      hint: ["Use a Tinklet server: ", { name: "ServiceClient.local()" }, ", or one started with tinklet serve."],
    });
  }
  throw failed(`The server rejected the adapter in ${folder}: ${answer.detail ?? answer.error ?? response.status}`);
}

function readAnswer(body: Uint8Array): { tinker_path?: string; detail?: string; error?: string } {
  try {
    return parseJson(new TextDecoder().decode(body)) as { tinker_path?: string; detail?: string; error?: string };
  } catch {
    return {};
  }
}
