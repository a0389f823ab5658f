/**
 * Converts a response outside 2xx to the error that callers receive: message, request id, category, retry delay and a hint, without
 * secrets.
 */
import { type APIStatusError, requestErrorCategory, statusError } from "@tinklet/wire/errors";
import type { HttpResponse } from "./exchange.ts";
import type { FailureFacts } from "./hints.ts";
import { hintFor } from "./load-hints.ts";
import type { Redactor } from "./redact.ts";
import { retryAfterMs, shouldRetryHeader } from "./retry.ts";

const utf8 = new TextDecoder();
/** Maximum characters of a response body in an error message. */
const longestMessage = 2_000;

/** The body of an error response: parsed if it is JSON, else its text. */
export function errorBody(response: HttpResponse): unknown {
  const text = utf8.decode(response.body).trim();
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function failureOf(
  response: HttpResponse,
  context: {
    readonly method: string;
    readonly path: string;
    readonly redactor: Redactor;
    readonly nowMs: number;
    readonly facts: Omit<FailureFacts, "status" | "message">;
  },
): APIStatusError {
  const header = (name: string) => response.header(name);
  const body = context.redactor.value(errorBody(response));
  const fields = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const said = bodyMessage(body);
  const requestId = firstText(fields["request_id"], header("x-request-id"), header("request-id"));
  const about = `${response.status} from ${context.method} ${context.path}`;
  const message = `${about}${said === undefined ? "" : `: ${said.slice(0, longestMessage)}`}${requestId === undefined ? "" : ` (request ${requestId})`}`;
  return statusError(message, {
    status: response.status,
    body,
    requestId,
    category: fields["category"] === undefined ? undefined : requestErrorCategory(fields["category"]),
    retryAfterMs: retryAfterMs(header, body, context.nowMs),
    shouldRetry: shouldRetryHeader(header("x-should-retry")),
    hint: hintFor({ ...context.facts, status: response.status, message: said ?? "" }),
  });
}

const firstText = (...values: readonly unknown[]): string | undefined =>
  values.find((value): value is string => typeof value === "string" && value !== "");

/** The message in a body: `message`, `error` or `detail`, each a string, an object with such a field, or a list of them. */
function bodyMessage(body: unknown): string | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body !== "object") return String(body);
  if (Array.isArray(body)) {
    const parts = body.map(bodyMessage).filter((part) => part !== undefined);
    return parts.length === 0 ? undefined : parts.join("; ");
  }
  const fields = body as Record<string, unknown>;
  const said = bodyMessage(fields["message"] ?? fields["error"] ?? fields["detail"] ?? fields["msg"]);
  if (said === undefined) return undefined;
  // FastAPI names the field: { loc: ["body", "adam_params", "beta1"], msg: "…" }
  const where = fields["loc"];
  return Array.isArray(where) ? `${where.join(".")}: ${said}` : said;
}
