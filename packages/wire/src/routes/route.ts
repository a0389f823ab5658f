/**
 * What a route is, and how a request by one is written: path, query and body. The routes themselves are `core-routes.ts` and
 * `rest-routes.ts`; `contract.ts` is all of them.
 */

import { describe, isPlainObject } from "../describe.ts";
import { InvalidInputError } from "../errors.ts";
import { omitUndefined } from "../omit-undefined.ts";
import type { Message } from "../schema/message.ts";
import type { FutureResultName } from "./core-routes.ts";

/** The version of the official SDK whose wire this is. The one place that says so. */
export const mirroredSdkVersion = "0.36.0";

/** Every path of the contract stands under this. */
export const apiPrefix = "/api/v1";

/** The connection pool a route belongs to: heavy traffic of one kind never starves another. */
export type Pool = "session" | "train" | "sample" | "retrieve" | "rest" | "redirect" | "telemetry";

/**
 * How a failed attempt is treated. `standard`: sent again within the attempt budget and window; `none`: the caller owns
 * retries (polls, heartbeats, sampling); `background`: errors are swallowed by design.
 */
export type RetryClass = "standard" | "none" | "background";

type Method = "GET" | "POST" | "PUT" | "DELETE";

/** The names in braces of a path. */
export type PathParams<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [K in Name]: string } & PathParams<Rest>
  : unknown;

/** A body that is not JSON. Servers decode it with `decodeForwardBackwardRequest`, which clients need not carry. */
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
  /** How long one attempt may take. */
  readonly timeoutMs: number;
  /** The answer is an acknowledgement; the result comes from `retrieve_future`. */
  readonly future?: FutureResultName;
  /** What the body carries, where that is more than parameters: servers bound its size by it. */
  readonly carries?: "data" | "adapter";
  /** Who first calls it; absent: it is as old as 0.25. Older servers do not have it. */
  readonly since?: Release;
}

/** Releases of the official SDK after 0.25 that brought routes or fields, oldest first. */
export type NewerRelease = "0.26" | "0.27" | "0.28" | "0.29" | "0.30" | "0.31" | "0.32" | "0.33" | "0.34" | "0.36";

/** Who brought a route or a field; `tinklet` are routes of our own servers, which no other has. */
export type Release = NewerRelease | "tinklet";

/** Fields of requests that are newer than 0.25, by their name on the wire. They are sent only where they carry something. */
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

/** A request as it goes out. */
export interface EncodedRequest {
  readonly method: Method;
  /** With prefix and path parameters, without a query. */
  readonly path: string;
  /** Without the question mark; empty when there is none. */
  readonly query: string;
  /** A JSON object, bytes, or nothing. */
  readonly body: unknown;
  readonly contentType: string | undefined;
}

const isBinary = (body: unknown): body is BinaryBody<unknown> =>
  typeof body === "object" && body !== null && "contentType" in body;

/**
 * Splits a request into path, query and body as its route says.
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
  const rest = { ...whole };
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
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
 * Path parameters stand in the path as they are (`:` and the slash of a checkpoint id included), so what would change
 * which route is meant is refused.
 */
function checkedSegment(name: string, value: string): string {
  if (/[?#\\\s%]|^\/|\/$|\/\/|(^|\/)\.\.?(\/|$)/.test(value) || (name !== "checkpointId" && value.includes("/"))) {
    throw new InvalidInputError(name, `${describe(value)} cannot stand in a path`);
  }
  return value;
}

/** A flat query as text: `:` and `+` escaped, spaces as `+`, as Python's `urlencode` writes it. */
export function encodeQuery(query: Readonly<Record<string, unknown>>): string {
  return new URLSearchParams(
    Object.entries(query)
      .filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([key, value]): [string, string] => [key, String(value)]),
  ).toString();
}
