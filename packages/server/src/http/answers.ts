/**
 * Making answers. Every body goes out whole, uncompressed and with its length: the official client takes a 400 without a
 * Content-Length for a broken connection and retries it.
 */
import { InputError } from "@tinklet/engine";
import { InvalidInputError, ResponseValidationError } from "tinklet";
import { stringifyJson } from "tinklet/wire";
import { UserError } from "../queue/job.ts";
import { Refusal } from "../queue/refusal.ts";
import { wireMessage } from "../queue/wire-field.ts";
import { StoreError } from "../store/store-error.ts";

export function jsonAnswer(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return bytesAnswer(new TextEncoder().encode(stringifyJson(body)), "application/json", status, headers);
}

export function bytesAnswer(
  body: Uint8Array,
  contentType: string,
  status = 200,
  headers: Record<string, string> = {},
): Response {
  return new Response(body as Uint8Array<ArrayBuffer>, {
    status,
    headers: { "content-type": contentType, "content-length": String(body.byteLength), ...headers },
  });
}

/** What a client is told about an error, or `undefined` when it is none of those it should hear about. */
export function errorAnswer(error: unknown): Response | undefined {
  if (error instanceof Refusal) {
    const { retryAfterSeconds: seconds } = error;
    return problem(error.status, error.code, error.message, seconds);
  }
  if (error instanceof InvalidInputError || error instanceof ResponseValidationError) {
    const hint = error.hint === undefined ? "" : ` ${error.hint}`;
    return problem(422, "invalid_request", `${error.message}${hint}`);
  }
  if (error instanceof UserError) return problem(400, "bad_request", error.message);
  if (error instanceof InputError) return problem(400, "bad_request", wireMessage(error));
  if (error instanceof StoreError) return problem(503, `storage_${error.code}`, error.message, 2);
  return undefined;
}

export function problem(status: number, code: string, detail: string, retryAfterSeconds?: number): Response {
  return jsonAnswer(
    { detail, code },
    status,
    retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) },
  );
}
