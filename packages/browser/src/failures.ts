/** How errors of the engine and the storage reach a client: as the failure of a future, or as a status. */
import { EngineError, InputError, ModelError } from "@tinklet/engine/errors";
import { Refusal, wireMessage } from "@tinklet/server/portable";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import { isEngineEnd } from "./engine-host.ts";
import { StorageError } from "./storage/storage.ts";

/** The failure of an accepted request, as the API has it. */
export interface Failure {
  readonly error: string;
  readonly category: "user" | "server";
}

/** The reason of a request that ended because its client wanted so. */
export class UserMessage extends Error {
  override readonly name = "UserMessage";
}

const withHint = ({ message, hint }: { readonly message: string; readonly hint?: string | undefined }): string =>
  hint === undefined || message.includes(hint) ? message : `${message} ${hint}`;

/** The page and the server have one user, so that every message may be shown. */
export function failureOf(error: unknown): Failure {
  if (error instanceof InputError) return { error: wireMessage(error), category: "user" };
  if (error instanceof StorageError) return { error: withHint(error), category: "server" };
  const isInvalid = error instanceof InvalidInputError || error instanceof ResponseValidationError;
  if (error instanceof Refusal || error instanceof UserMessage || isInvalid)
    return { error: error.message, category: "user" };
  if (isEngineEnd(error)) {
    return {
      error: `The engine's worker has ended (${(error as Error).message}). Send the request again: the next one starts another worker.`,
      category: "server",
    };
  }
  const isUser = error instanceof ModelError && (!(error instanceof EngineError) || error.code === "memory_budget");
  return { error: error instanceof Error ? error.message : String(error), category: isUser ? "user" : "server" };
}

/** The status, code and message of a request that was not accepted. */
export function problemOf(error: unknown): { readonly status: number; readonly code: string; readonly detail: string } {
  if (error instanceof Refusal) return { status: error.status, code: error.code, detail: error.message };
  if (error instanceof InvalidInputError || error instanceof ResponseValidationError) {
    return { status: 422, code: "invalid_request", detail: withHint(error) };
  }
  if (error instanceof InputError) return { status: 400, code: "bad_request", detail: wireMessage(error) };
  return { status: 500, code: "internal_error", detail: failureOf(error).error };
}
