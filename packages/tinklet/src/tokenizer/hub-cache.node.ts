/**
 * The Hugging Face cache on disk, in the layout that `huggingface_hub` uses, so that what Python downloaded is found here
 * and the other way round: `models--org--name/{refs,snapshots,.no_exist}`.
 */
import { nodeBuiltin } from "../node-builtin.ts";
import { environment } from "../transport/environment.ts";

const { randomUUID } = nodeBuiltin<typeof import("node:crypto")>("node:crypto");
const { mkdir, readFile, rename, stat, writeFile } = nodeBuiltin<typeof import("node:fs/promises")>("node:fs/promises");
const { homedir } = nodeBuiltin<typeof import("node:os")>("node:os");
const { dirname, join } = nodeBuiltin<typeof import("node:path")>("node:path");

/** What is known of a file without asking the Hub. */
export type Cached = { readonly known: true; readonly text: string | undefined } | { readonly known: false };

/** The text of a file, or `undefined` where there is none. Other failures (a folder, no permission) are thrown. */
export async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Whether there is a folder of that name; `~` is the home folder. */
export async function existingFolder(path: string): Promise<string | undefined> {
  const full = path.startsWith("~/") ? join(homedir(), path.slice(2)) : path;
  const found = await stat(full).catch(() => undefined);
  return found?.isDirectory() ? full : undefined;
}

const hubHome = () =>
  environment("HF_HOME") ?? join(environment("XDG_CACHE_HOME") ?? join(homedir(), ".cache"), "huggingface");

/** `HF_TOKEN`, or what `hf auth login` left behind. */
export async function hubToken(): Promise<string | undefined> {
  const given = environment("HF_TOKEN") ?? (await readText(environment("HF_TOKEN_PATH") ?? join(hubHome(), "token")));
  return given?.trim() || undefined;
}

/** A repository's place in the cache. */
export class HubCache {
  readonly #root: string;

  constructor(id: string, cacheDir = environment("HF_HUB_CACHE") ?? join(hubHome(), "hub")) {
    this.#root = join(cacheDir, `models--${id.replaceAll("/", "--")}`);
  }

  /** The commit that a branch stood for when it was last fetched; a revision that is a commit stands for itself. */
  async commitOf(revision: string): Promise<string | undefined> {
    if (/^[0-9a-f]{40}$/.test(revision)) return revision;
    return (await readText(join(this.#root, "refs", revision)))?.trim() || undefined;
  }

  async read(commit: string, file: string): Promise<Cached> {
    const text = await readText(join(this.#root, "snapshots", commit, file));
    if (text !== undefined) return { known: true, text };
    const absent = (await readText(join(this.#root, ".no_exist", commit, file))) !== undefined;
    return absent ? { known: true, text: undefined } : { known: false };
  }

  /** Keeps a file (or, without text, that there is none) for next time. A cache that cannot be written is no failure. */
  async write(revision: string, commit: string, file: string, text: string | undefined): Promise<void> {
    if (!/^[0-9a-f]{40}$/.test(commit)) return;
    try {
      const folder = text === undefined ? ".no_exist" : "snapshots";
      await replace(join(this.#root, folder, commit, file), text ?? "");
      if (revision !== commit) await replace(join(this.#root, "refs", revision), commit);
    } catch {
      // read-only home, full disk: the tokenizer itself is in hand
    }
  }
}

/** Writes beside the target and renames, so that a reader sees all of a file or none. */
async function replace(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const draft = `${path}.${randomUUID()}.incomplete`;
  await writeFile(draft, text);
  await rename(draft, path);
}
