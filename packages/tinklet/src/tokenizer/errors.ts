/** What can go wrong between a tokenizer's name and a working tokenizer. */
import { TinkerError } from "../errors.ts";

/** Why a tokenizer could not be loaded or used. */
export type TokenizerProblem =
  | "tokenizer_not_found"
  | "tokenizer_access"
  | "tokenizer_network"
  | "tokenizer_invalid"
  | "chat_template"
  | "missing_peer";

/** A tokenizer could not be loaded, or refuses what it was given. */
export class TokenizerError extends TinkerError {
  override readonly name = "TokenizerError";
  /** What went wrong. */
  declare readonly code: TokenizerProblem;
  constructor(code: TokenizerProblem, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, { code, ...options });
  }
}
