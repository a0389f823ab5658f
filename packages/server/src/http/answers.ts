/**
 * Responses from values and errors. Bodies are uncompressed and have a Content-Length: the official client takes a 400 without one for a
 * broken connection and retries it.
 */
import { InputError } from "@tinklet/engine";
import { protobufContentType, stringifyJson } from "@tinklet/wire";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import { encodeStatus } from "@tinklet/wire/otlp";
import { UserError } from "../queue/job.ts";
import { Refusal } from "../queue/refusal.ts";
import { wireMessage } from "../queue/wire-field.ts";
import { StoreError } from "../store/store-error.ts";
import { errorBody } from "./chat/error-body.ts";
import type { Surface } from "./chat/routes.ts";

export function jsonAnswer(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return jsonTextAnswer(stringifyJson(body), status, headers);
}

/** {@link jsonAnswer} for JSON that is already serialized. */
export function jsonTextAnswer(json: string, status = 200, headers: Record<string, string> = {}): Response {
  return bytesAnswer(new TextEncoder().encode(json), "application/json", status, headers);
}

export function bytesAnswer(
  body: Uint8Array,
  contentType: string,
  status = 200,
  headers: Record<string, string> = {},
): Response {
  const response = new Response(body as Uint8Array<ArrayBuffer>, {
    status,
    headers: { "content-type": contentType, "content-length": String(body.byteLength), ...headers },
  });
  if (body.byteLength > smallAnswerBytes) largeAnswers.set(response, body.byteLength);
  return response;
}

/** Responses up to this size are not counted: most acknowledge work that is already done, and must not be refused with 429. */
const smallAnswerBytes = 64 * 1024;

/** Sizes of the responses that are counted. */
const largeAnswers = new WeakMap<Response, number>();

/** Bytes of memory that a response holds until it is sent; 0 for small and for streamed responses. */
export const bytesHeldBy = (response: Response): number => largeAnswers.get(response) ?? 0;

/** An error as clients see it, independent of the API whose shape the response has. */
export interface Problem {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly retryAfterSeconds?: number | undefined;
  /** The invalid parameter, if there is one. */
  readonly param?: string | undefined;
  readonly details?: object | undefined;
}

/** A problem with data for the client's program. */
export interface DetailedProblem {
  readonly details: object;
}

/** The problem that an error means for the client; `undefined` for internal errors, whose text clients must not see. */
export function describeError(error: unknown): Problem | undefined {
  if (error instanceof Refusal) {
    const { status, code, message: detail, retryAfterSeconds, param } = error;
    const { details } = error as Refusal & Partial<DetailedProblem>;
    return { status, code, detail, retryAfterSeconds, param, details };
  }
  if (error instanceof InvalidInputError || error instanceof ResponseValidationError) {
    const hint = error.hint === undefined ? "" : ` ${error.hint}`;
    return { status: 422, code: "invalid_request", detail: `${error.message}${hint}` };
  }
  if (error instanceof UserError) return { status: 400, code: "bad_request", detail: error.message };
  if (error instanceof InputError) return { status: 400, code: "bad_request", detail: wireMessage(error) };
  if (error instanceof StoreError) {
    return { status: 503, code: `storage_${error.code}`, detail: error.message, retryAfterSeconds: 2 };
  }
  return undefined;
}

/** The response for a problem, in the shape of an API. */
export function problemAnswer(problem: Problem, surface: Surface): Response {
  const { status, retryAfterSeconds: seconds } = problem;
  const headers = seconds === undefined ? {} : { "retry-after": String(seconds) };
  const body = errorBody(surface, problem);
  if (surface === "otlp")
    return bytesAnswer(encodeStatus(body as Parameters<typeof encodeStatus>[0]), protobufContentType, status, headers);
  return jsonAnswer(body, status, headers);
}

/** The response for a problem, in the shape of the Tinker API. */
export function problem(status: number, code: string, detail: string, retryAfterSeconds?: number): Response {
  return problemAnswer({ status, code, detail, retryAfterSeconds }, "tinker");
}
