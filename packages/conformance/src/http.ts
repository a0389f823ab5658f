/**
 * Raw requests, for behaviour that the client hides or requests that it would reject. Every request has a deadline. Requests are not
 * retried; polls repeat until their request is finished.
 */

import type { FetchLike } from "@tinklet/sdk";
import { apiPrefix, parseJson, protobufContentType, stringifyJson } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { Failed, fail, holds, show, text } from "./checks.ts";

/** A complete response. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The parsed body, if the content type is JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: responses of any server, of any shape
  readonly json: any;
  readonly bytes: Uint8Array;
}

/** The outcome of an accepted request. */
export type Outcome =
  | { readonly kind: "done"; readonly answer: Answer }
  | { readonly kind: "failed"; readonly error: string; readonly category: unknown; readonly answer: Answer }
  | { readonly kind: "refused"; readonly status: number; readonly answer: Answer };

export interface SendOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** API key to send instead of the kit's; null sends none. */
  readonly key?: string | null;
  readonly signal?: AbortSignal;
}

export interface HttpOptions {
  readonly baseUrl: string;
  readonly credential: string;
  readonly fetch: FetchLike;
  /** Aborted at the case's deadline. */
  readonly signal: AbortSignal;
}

const requestTypes = { forward_backward: "ForwardBackward", asample: "Sample" } as const;

export class Http {
  readonly #options: HttpOptions;

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  /** Sends one request. Paths are relative to `/api/v1/` unless they are absolute URLs. Bytes are sent as protobuf, other bodies as JSON. */
  async send(method: string, path: string, body?: unknown, options: SendOptions = {}): Promise<Answer> {
    const { baseUrl, credential, fetch, signal } = this.#options;
    const url = /^https?:/.test(path) ? path : `${baseUrl.replace(/\/+$/, "")}${apiPrefix}/${path}`;
    const key = options.key === undefined ? credential : options.key;
    const isBytes = body instanceof Uint8Array;
    const response = await fetch(url, {
      method,
      redirect: "manual",
      headers: {
        accept: "application/json",
        ...(key === null ? {} : { "x-api-key": key }),
        ...(method === "GET" ? {} : { "content-type": isBytes ? protobufContentType : "application/json" }),
        ...options.headers,
      },
      ...(body === undefined
        ? {}
        : {
            body: isBytes ? (body as Uint8Array<ArrayBuffer>) : typeof body === "string" ? body : stringifyJson(body),
          }),
      signal: options.signal === undefined ? signal : AbortSignal.any([signal, options.signal]),
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const isJson = (response.headers.get("content-type") ?? "").includes("json") && bytes.length > 0;
    return { status: response.status, headers: response.headers, bytes, json: isJson ? readJson(bytes) : undefined };
  }

  post(path: string, body: unknown = {}, options?: SendOptions): Promise<Answer> {
    return this.send("POST", path, body, options);
  }

  get(path: string, options?: SendOptions): Promise<Answer> {
    return this.send("GET", path, undefined, options);
  }

  /** Sends a request and asserts a 2xx status. */
  async ok(method: string, path: string, body?: unknown, options?: SendOptions): Promise<Answer> {
    const answer = await this.send(method, path, body, options);
    const good = answer.status >= 200 && answer.status < 300;
    holds(good, `${method} ${path}`, "a 2xx", described(answer));
    return answer;
  }

  /** Submits a request that returns a future; returns the future's id. */
  async submit(path: string, body: unknown, options?: SendOptions): Promise<string> {
    const answer = await this.ok("POST", path, body, options);
    return text(answer.json?.request_id, `${path}: request_id`);
  }

  /** Polls once. */
  poll(requestId: string, options: SendOptions & { readonly metadataOnly?: boolean } = {}): Promise<Answer> {
    const { metadataOnly = true, headers, ...rest } = options;
    return this.post(
      "retrieve_future",
      { request_id: requestId, allow_metadata_only: metadataOnly },
      { ...rest, headers: { accept: protobufContentType, "x-tinker-request-iteration": "0", ...headers } },
    );
  }

  /** Polls until the request is finished. */
  async outcome(requestId: string, options: { readonly requestType?: string } = {}): Promise<Outcome> {
    const headers = omitUndefined({ "x-tinker-request-type": options.requestType });
    let metadataOnly = true;
    for (;;) {
      const answer = await this.poll(requestId, { headers, metadataOnly });
      if (answer.status === 408 || answer.json?.type === "try_again") continue;
      if (answer.status === 200 && answer.json?.status === "complete_metadata") {
        holds(metadataOnly, "retrieve_future", "the requested payload", "complete_metadata again");
        metadataOnly = false;
        continue;
      }
      if (answer.status >= 500) fail("retrieve_future", "no 5xx", described(answer));
      if (answer.status !== 200) return { kind: "refused", status: answer.status, answer };
      if (answer.json !== undefined && "error" in answer.json) {
        return { kind: "failed", error: String(answer.json.error), category: answer.json.category, answer };
      }
      return { kind: "done", answer };
    }
  }

  /** The response with the result; any other outcome fails the case. */
  async result(requestId: string, requestType?: string): Promise<Answer> {
    const outcome = await this.outcome(requestId, omitUndefined({ requestType }));
    if (outcome.kind !== "done") fail(`the result of request ${requestId}`, "a result", described(outcome.answer));
    return outcome.answer;
  }

  /** Submits and waits for the result. */
  async call(path: string, body: unknown, options?: SendOptions): Promise<Answer> {
    const requestId = await this.submit(path, body, options);
    return this.result(requestId, (requestTypes as Record<string, string>)[path]);
  }

  /**
   * Asserts that a request is rejected: with a 4xx and a body with the reason, or with a failed future.
   *
   * @throws {@link Failed} if it succeeds, returns a 5xx, or has an empty body.
   */
  async refused(
    label: string,
    path: string,
    body: unknown,
    options?: SendOptions & { method?: string },
  ): Promise<Answer> {
    const answer = await this.send(options?.method ?? "POST", path, body, options);
    const rejection = await this.refusal(label, answer);
    return rejection;
  }

  /** Like {@link Http.refused}, for a response that was already received. */
  async refusal(label: string, answer: Answer): Promise<Answer> {
    if (answer.status >= 400 && answer.status < 500) {
      holds(answer.bytes.length > 0, `${label}: the body of the 4xx`, "a body with the reason", "an empty body");
      return answer;
    }
    if (answer.status >= 300) fail(label, "a 4xx, or a future that fails", described(answer));
    const requestId = answer.json?.request_id;
    if (typeof requestId !== "string") fail(label, "a rejection", described(answer));
    const outcome = await this.outcome(requestId);
    if (outcome.kind === "done") fail(label, "a rejection", `success: ${described(outcome.answer)}`);
    return outcome.answer;
  }
}

function readJson(bytes: Uint8Array): unknown {
  const body = new TextDecoder().decode(bytes);
  try {
    return parseJson(body);
  } catch {
    throw new Failed("a response with content type JSON", "JSON", show(body));
  }
}

/** Status and start of the body. */
export function described(answer: Answer): string {
  const isText = /json|text/.test(answer.headers.get("content-type") ?? "");
  const body = isText ? show(new TextDecoder().decode(answer.bytes)) : `${answer.bytes.length} bytes`;
  return `${answer.status} ${body}`;
}
