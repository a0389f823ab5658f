/** Parses names on the Hub: `org/name`, with a revision (`org/name@main`) or a single file (`org/name:file.gguf`). */

export interface HubId {
  /** Absent for a few early models (`gpt2`). */
  readonly owner?: string;
  readonly name: string;
  /** Branch, tag or commit. */
  readonly revision: string;
  /** One GGUF file of a repository with several. */
  readonly file?: string;
  /** @defaultValue a model */
  readonly kind?: "dataset";
}

const part = "[A-Za-z0-9_][A-Za-z0-9_.-]*";
const pattern = new RegExp(`^(${part})/(${part})(?:@(${part}(?:/${part})*))?(?::(${part}\\.gguf))?$`);
const barePattern = new RegExp(`^${part}$`);

/** Parses a Hub id; undefined if `text` is not one. A valid id cannot form a path outside the cache folder. */
export function parseHubId(text: string): HubId | undefined {
  const parts = pattern.exec(text);
  if (!parts || text.includes("..")) return undefined;
  const [, owner, name, revision = "main", file] = parts;
  return { owner: owner as string, name: name as string, revision, ...(file !== undefined && { file }) };
}

/** Like {@link parseHubId}, but also accepts a name without owner. For weights such a name is more likely a mistyped folder. */
export function parseTokenizerId(text: string, revision?: string): HubId | undefined {
  const id =
    parseHubId(text) ?? (barePattern.test(text) && !text.includes("..") ? { name: text, revision: "main" } : undefined);
  return id && revision !== undefined ? { ...id, revision } : id;
}

const datasetPattern = new RegExp(
  `^(?:hf://datasets/)?(${part})/(${part})(?:@(${part}(?:/${part})*))?(?::(${part}(?:/${part})*))?$`,
);

/** Parses a dataset id: `org/name`, `org/name@revision`, `org/name:part`; undefined if `text` is not one. */
export function parseDatasetId(text: string): (HubId & { readonly owner: string; readonly part?: string }) | undefined {
  const parts = datasetPattern.exec(text);
  if (!parts || text.includes("..")) return undefined;
  const [, owner, name, revision = "main", chosen] = parts;
  const id = { owner: owner as string, name: name as string, revision, kind: "dataset" } as const;
  return chosen === undefined ? id : { ...id, part: chosen };
}

/** `org/name`. */
export const repositoryOf = ({ owner, name }: HubId): string => (owner === undefined ? name : `${owner}/${name}`);
