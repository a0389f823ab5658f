/**
 * Making answers. Every body goes out whole, uncompressed and with its length: the official client takes a 400 without a
 * Content-Length for a broken connection and retries it.
 */
import { InputError } from "@tinklet/engine";
import { stringifyJson } from "@tinklet/wire";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import { UserError } from "../queue/job.ts";
import { Refusal } from "../queue/refusal.ts";
import { wireMessage } from "../queue/wire-field.ts";
import { StoreError } from "../store/store-error.ts";
import type { Surface } from "./chat/routes.ts";
import { errorBody } from "./chat/shapes.ts";

export function jsonAnswer(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return jsonTextAnswer(stringifyJson(body), status, headers);
}

/** The same for JSON that is written already. */
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

/** Answers up to this are not counted: what they acknowledge is done, and must not be refused. */
const smallAnswerBytes = 64 * 1024;

/** Answers that hold memory until they are sent. */
const largeAnswers = new WeakMap<Response, number>();

/** Bytes that an answer holds until it is sent; 0 for small ones, and for those that are streamed. */
export const bytesHeldBy = (response: Response): number => largeAnswers.get(response) ?? 0;

/** What a client is told about an error, whatever the shape of the answer. */
export interface Problem {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly retryAfterSeconds?: number | undefined;
  /** The parameter at fault, where one is known. */
  readonly param?: string | undefined;
}

/** The same for an error; `undefined` when it is none of those that a client should hear about. */
export function describeError(error: unknown): Problem | undefined {
  if (error instanceof Refusal) {
    const { status, code, message: detail, retryAfterSeconds, param } = error;
    return { status, code, detail, retryAfterSeconds, param };
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

/** An error's answer, in the shape of an API. */
export function problemAnswer(problem: Problem, surface: Surface): Response {
  const { status, retryAfterSeconds: seconds } = problem;
  const headers = seconds === undefined ? {} : { "retry-after": String(seconds) };
  return jsonAnswer(errorBody(surface, problem), status, headers);
}

/** The same, as the Tinker API has it. */
export function problem(status: number, code: string, detail: string, retryAfterSeconds?: number): Response {
  return problemAnswer({ status, code, detail, retryAfterSeconds }, "tinker");
}
