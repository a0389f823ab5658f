/** Errors of loading and using tokenizers. */
import { TinkerError } from "@tinklet/wire/errors";

/** Why a tokenizer could not be loaded or used. */
export type TokenizerProblem =
  | "tokenizer_not_found"
  | "tokenizer_access"
  | "tokenizer_network"
  | "tokenizer_invalid"
  | "chat_template"
  | "missing_peer";

/** A tokenizer could not be loaded, or rejected its input. */
export class TokenizerError extends TinkerError {
  override readonly name = "TokenizerError";
  /** What went wrong. */
  declare readonly code: TokenizerProblem;
  constructor(code: TokenizerProblem, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, { code, ...options });
  }
}

/** Codes of `@tinklet/models` that do not map to `tokenizer_invalid`. */
const problems: Readonly<Record<string, TokenizerProblem>> = {
  not_found: "tokenizer_not_found",
  no_tokenizer: "tokenizer_not_found",
  no_bundled_model: "tokenizer_not_found",
  offline: "tokenizer_not_found",
  unauthorized: "tokenizer_access",
  network: "tokenizer_network",
  http_status: "tokenizer_network",
  bad_response: "tokenizer_network",
  corrupt_download: "tokenizer_network",
  no_chat_template: "chat_template",
  bad_chat_template: "chat_template",
  chat_template_failed: "chat_template",
};

/** Converts an error of `@tinklet/models` to a {@link TokenizerError}; returns other errors (aborts) unchanged. */
export function fromModelError(error: unknown): unknown {
  // Checked by shape, not by class: the package may be missing or installed twice.
  const { code, hint } = error as { code?: unknown; hint?: unknown };
  const isModelError =
    error instanceof Error &&
    typeof code === "string" &&
    /^(?:Model|Config|Weights|Tokenizer|Hub)Error$/.test(error.name);
  if (!isModelError || error instanceof TinkerError) return error;
  const problem = Object.hasOwn(problems, code) ? (problems[code] as TokenizerProblem) : "tokenizer_invalid";
  if (typeof hint !== "string") return new TokenizerError(problem, error.message, { cause: error });
  const message = error.message.replace(` (${hint})`, ""); // that package appends the hint to the message
  return new TokenizerError(problem, message, { hint, cause: error });
}
