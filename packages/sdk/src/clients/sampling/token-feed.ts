/** Reads the token feed of a running sample from a Tinklet server. Loaded only for servers with that extension. */

import { parseJson } from "@tinklet/wire/client";
import type { APIFuture } from "../../futures/api-future.ts";
import type { Session } from "../session/session.ts";

/** A token of the feed. */
export type FedToken = readonly [index: number, token: number, logprob?: number | null];

/** Timeout of one request for new tokens; servers hold it for less time. */
const feedTimeoutMs = 60_000;

/** The tokens of a request until its result is available or the feed fails. */
export async function* fedTokens(
  session: Session,
  requestId: string,
  response: APIFuture<unknown>,
): AsyncGenerator<FedToken> {
  const over = new AbortController();
  response.settled(() => over.abort());
  for (let after = 0; ; ) {
    const page = await readPage(session, requestId, after, over.signal).catch(() => undefined);
    if (page === undefined) return;
    yield* page.tokens;
    after += page.tokens.length;
    if (page.done) return;
  }
}

async function readPage({ transport }: Session, requestId: string, after: number, signal: AbortSignal) {
  const path = `/tinklet/samples/${encodeURIComponent(requestId)}/tokens?after=${after}`;
  const request = { method: "GET", path, pool: "retrieve", timeoutMs: feedTimeoutMs } as const;
  const { status, body } = await transport.ask(request, { signal });
  if (status !== 200) return undefined;
  return parseJson(new TextDecoder().decode(body)) as unknown as {
    readonly tokens: readonly FedToken[];
    readonly done: boolean;
  };
}
