/** One file of a Hugging Face repository over HTTP. No cache, no `node:` imports. */
import { isNode } from "../transport/environment.ts";
import { TokenizerError } from "./errors.ts";

/** A repository at a revision, and how to reach it. */
export interface HubSource {
  /** `org/name`. */
  readonly id: string;
  readonly revision: string;
  /** @defaultValue `https://huggingface.co`, or `HF_ENDPOINT` */
  readonly endpoint: string;
  readonly token?: string | undefined;
  readonly fetch: typeof fetch;
  readonly signal?: AbortSignal | undefined;
}

/** A file's text, and the commit that the revision stands for, if the Hub says so. */
export interface HubFile {
  readonly text: string;
  readonly commit: string | undefined;
}

const mostRedirects = 10;
/** The largest published tokenizer.json are some 35 MB. */
const largestBytes = 256 * 1024 * 1024;

/** Whether a name may be a repository: one or two plain segments. Also keeps `..` out of paths. */
export const isHubId = (id: string): boolean => /^[\w-][\w.-]*(?:\/[\w-][\w.-]*)?$/.test(id);

/**
 * Fetches one file; `undefined` when the repository has none of that name. The token goes to the Hub itself and to
 * nobody that it redirects to.
 */
export async function fetchHubFile(source: HubSource, file: string): Promise<HubFile | undefined> {
  const { id, endpoint } = source;
  const what = `${file} of ${id}`;
  let url = `${endpoint}/${id}/resolve/${encodeURIComponent(source.revision)}/${encodeURIComponent(file)}`;
  let commit: string | undefined;
  for (let hop = 0; hop <= mostRedirects; hop++) {
    const response = await request(source, url, what);
    commit ??= response.headers.get("x-repo-commit") ?? undefined; // on the Hub's own answer, not on its storage's
    const location = response.status >= 300 && response.status < 400 ? response.headers.get("location") : null;
    if (location !== null) {
      await response.body?.cancel();
      url = new URL(location, url).href;
      continue;
    }
    if (response.ok) {
      if (Number(response.headers.get("content-length") ?? 0) > largestBytes) {
        await response.body?.cancel();
        throw new TokenizerError("tokenizer_invalid", `${what} is larger than any tokenizer.`);
      }
      return { text: await response.text(), commit };
    }
    await response.body?.cancel();
    // The Hub says which of the two is missing; a mirror that does not is believed to mean the file.
    const missingRepository = ["RepoNotFound", "RevisionNotFound"].includes(response.headers.get("x-error-code") ?? "");
    if (response.status === 404 && !missingRepository) return undefined;
    throw refusal(response.status, source);
  }
  throw new TokenizerError("tokenizer_network", `Too many redirects for ${what}.`);
}

async function request(source: HubSource, url: string, what: string): Promise<Response> {
  const own = new URL(url).origin === new URL(source.endpoint).origin;
  try {
    return await source.fetch(url, {
      // A browser follows redirects by itself and shows none of them.
      redirect: isNode() ? "manual" : "follow",
      headers: own && source.token !== undefined ? { authorization: `Bearer ${source.token}` } : {},
      ...(source.signal === undefined ? {} : { signal: source.signal }),
    });
  } catch (cause) {
    source.signal?.throwIfAborted();
    throw new TokenizerError("tokenizer_network", `Cannot reach ${source.endpoint} for ${what}.`, {
      cause,
      hint: "Check the connection and HF_ENDPOINT, or give loadTokenizer() a folder with a tokenizer.json.",
    });
  }
}

function refusal(status: number, { id, revision, token, endpoint }: HubSource): TokenizerError {
  if (status === 401 || status === 403) {
    return new TokenizerError("tokenizer_access", `${endpoint} refuses access to ${id} (${status}).`, {
      hint:
        token === undefined
          ? "Set HF_TOKEN; for a gated model accept its terms on its page first. A misspelt name is answered so, too."
          : "The token in HF_TOKEN gives no access; for a gated model accept its terms on its page first.",
    });
  }
  if (status === 404) {
    return new TokenizerError("tokenizer_not_found", `${endpoint} has no ${id} at revision ${revision}.`);
  }
  return new TokenizerError("tokenizer_network", `${endpoint} answered ${status} for ${id}.`);
}
