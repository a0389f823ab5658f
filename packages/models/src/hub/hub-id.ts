/** Names of models on the Hub: `org/name`, with a revision (`org/name@main`) or a single file (`org/name:file.gguf`). */

export interface HubId {
  readonly owner: string;
  readonly name: string;
  /** Branch, tag or commit. */
  readonly revision: string;
  /** One GGUF file out of a repository that has several. */
  readonly file?: string;
}

const PART = "[A-Za-z0-9_][A-Za-z0-9_.-]*";
const PATTERN = new RegExp(`^(${PART})/(${PART})(?:@(${PART}(?:/${PART})*))?(?::(${PART}\\.gguf))?$`);

/** The parts of a Hub id, or undefined when `text` is not one. Nothing in it can lead out of the cache folder. */
export function parseHubId(text: string): HubId | undefined {
  const parts = PATTERN.exec(text);
  if (!parts || text.includes("..")) return undefined;
  const [, owner, name, revision = "main", file] = parts;
  return { owner: owner as string, name: name as string, revision, ...(file !== undefined && { file }) };
}

export const repositoryOf = ({ owner, name }: HubId): string => `${owner}/${name}`;
