/**
 * The type of a route, and the encoding of a request into path, query and body. The routes are in `core-routes.ts` and
 * `rest-routes.ts`; `contract.ts` joins them.
 */

import { describe, isPlainObject } from "../describe.ts";
import { InvalidInputError } from "../errors.ts";
import { omitUndefined } from "../omit-undefined.ts";
import type { Message } from "../schema/message.ts";
import type { FutureResultName } from "./core-routes.ts";

/** The version of the official SDK whose messages these are. */
export const mirroredSdkVersion = "0.36.0";

/** Prefix of every path of the contract. */
export const apiPrefix = "/api/v1";

/** The connection pool of a route. Pools are separate, so that heavy traffic in one does not delay the others. */
export type Pool = "session" | "train" | "sample" | "retrieve" | "rest" | "redirect" | "telemetry";

/**
 * Handling of a failed attempt. `standard`: retried within the attempt budget and the time window; `none`: the caller retries (polls,
 * heartbeats, sampling); `background`: errors are ignored.
 */
export type RetryClass = "standard" | "none" | "background";

type Method = "GET" | "POST" | "PUT" | "DELETE";

/** The names in braces of a path. */
export type PathParams<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [K in Name]: string } & PathParams<Rest>
  : unknown;

/** A body that is not JSON. Its decoder is separate (`decodeForwardBackwardRequest`), because clients do not need it. */
export interface BinaryBody<T> {
  readonly contentType: "application/x-protobuf";
  readonly encode: (value: T) => Uint8Array;
}

/** One route. */
export interface Route<Path extends string = string, Query = unknown, Body = unknown, Answer = unknown> {
  readonly method: Method;
  readonly path: Path;
  readonly query?: Query;
  readonly body?: Body;
  /** Absent: the answer's body is ignored. */
  readonly response?: Answer;
  readonly pool: Pool;
  readonly retry: RetryClass;
  /** Timeout of one attempt. */
  readonly timeoutMs: number;
  /** The answer is an acknowledgement; the result comes from `retrieve_future`. */
  readonly future?: FutureResultName;
  /** Kind of a large body: selects the server's limit of its size. */
  readonly carries?: "data" | "adapter";
  /** The first release that calls it; absent: 0.25. Older servers do not have the route. */
  readonly since?: Release;
}

/** Releases of the official SDK after 0.25 that added routes or fields, oldest first. */
export type NewerRelease = "0.26" | "0.27" | "0.28" | "0.29" | "0.30" | "0.31" | "0.32" | "0.33" | "0.34" | "0.36";

/** The release that added a route or a field; `tinklet` marks Tinklet extensions. */
export type Release = NewerRelease | "tinklet";

/** Fields of requests that are newer than 0.25, by their name on the wire. They are sent only if they have a value. */
export const fieldsSince: Readonly<Record<string, Release>> = {
  record_stability_info: "0.27",
  user_metadata: "0.28",
  topk_sample_logprobs: "0.29",
  target_prompt_logprobs: "0.30",
  optimizer_config: "0.30",
  optimizer_params: "0.30",
  prompt_alt_tokens_k: "0.31",
  prompt_logprobs_last_n: "0.33",
  age_encryption_recipients: "0.33",
  display_name: "0.34",
};

type Policy = Partial<Pick<Route, "pool" | "retry" | "timeoutMs" | "future" | "carries" | "since">>;
const defaults = { pool: "train", retry: "standard", timeoutMs: 60_000 } as const satisfies Policy;

export function route<const P extends string, Q, B, A>(
  method: Method,
  path: P,
  parts: { query?: Q; body?: B; response?: A },
  policy: Policy = {},
): Route<P, Q, B, A> {
  return { method, path, ...parts, ...defaults, ...policy };
}
export const get = <const P extends string, A, Q = undefined>(path: P, response: A, policy?: Policy, query?: Q) =>
  route<P, Q, undefined, A>("GET", path, { response, ...omitUndefined({ query }) }, policy);
export const post = <const P extends string, B, A>(path: P, body: B, response: A, policy?: Policy) =>
  route<P, undefined, B, A>("POST", path, { body, response }, policy);

/** An encoded request. */
export interface EncodedRequest {
  readonly method: Method;
  /** With prefix and path parameters, without a query. */
  readonly path: string;
  /** Without the question mark; empty if there is no query. */
  readonly query: string;
  /** A JSON object, bytes, or nothing. */
  readonly body: unknown;
  readonly contentType: string | undefined;
}

const isBinary = (body: unknown): body is BinaryBody<unknown> =>
  typeof body === "object" && body !== null && "contentType" in body;

/**
 * Splits a request into path, query and body, by its route.
 *
 * @param operation - the route's name, for messages
 * @throws {@link InvalidInputError} naming the field, before anything is sent.
 */
export function encodeBy(route: Route, operation: string, request: unknown): EncodedRequest {
  const { method, path, query, body } = route as Route<string, Message<object> | undefined, unknown>;
  const whole: unknown = request ?? {};
  if (!isPlainObject(whole)) {
    throw new InvalidInputError(operation, `takes an object, not ${describe(whole)}`);
  }
  const hasPathFields = path.includes("{");
  const rest = hasPathFields ? { ...whole } : whole;
  const filled = !hasPathFields
    ? path
    : path.replace(/\{(\w+)\}/g, (_, name: string) => {
        const value = rest[name];
        if (typeof value !== "string" || value === "") {
          throw new InvalidInputError(name, `must be a non-empty string, not ${describe(value)}`);
        }
        delete rest[name];
        return checkedSegment(name, value);
      });
  const queryText = query === undefined ? "" : encodeQuery(query.encode(rest as object));
  const base = { method, path: `${apiPrefix}${filled}`, query: queryText };
  const [unexpected] = query === undefined && body === undefined ? Object.keys(rest) : [];
  if (unexpected !== undefined) throw new InvalidInputError(unexpected, `is not a field of ${operation}`);
  if (body === undefined)
    return { ...base, body: undefined, contentType: method === "GET" ? undefined : "application/json" };
  if (isBinary(body)) return { ...base, body: body.encode(rest), contentType: body.contentType };
  return { ...base, body: (body as Message<object>).encode(rest), contentType: "application/json" };
}

/**
 * Path parameters are not escaped (`:` and the slash of a checkpoint id are kept), so characters that would change the route are
 * rejected.
 */
function checkedSegment(name: string, value: string): string {
  if (/[?#\\\s%]|^\/|\/$|\/\/|(^|\/)\.\.?(\/|$)/.test(value) || (name !== "checkpointId" && value.includes("/"))) {
    throw new InvalidInputError(name, `${describe(value)} cannot be used in a path`);
  }
  return value;
}

/** Encodes a flat query as Python's `urlencode` does: `:` and `+` are escaped, a space becomes `+`. */
export function encodeQuery(query: Readonly<Record<string, unknown>>): string {
  return new URLSearchParams(
    Object.entries(query)
      .filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([key, value]): [string, string] => [key, String(value)]),
  ).toString();
}
