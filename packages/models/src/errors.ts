/**
 * Errors about models and their files: one base class with a stable `code` and, where a fix is known, a `hint`. A message names the
 * field, tensor or file that is wrong. This module does not depend on HTTP.
 */

/** Base class of all errors about models. */
export class ModelError extends Error {
  override name = "ModelError"; // a literal here and in every subclass, since bundlers rename classes
  /** Stable, machine-readable name of the failure, for example `"unsupported_field"`. */
  readonly code: string;
  /** How to fix the problem, if known. */
  readonly hint?: string;

  constructor(code: string, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(options.hint ? `${message} (${options.hint})` : message, { cause: options.cause });
    this.code = code;
    if (options.hint !== undefined) this.hint = options.hint;
  }
}

/** A `config.json` value or an option that is invalid or not supported; `field` is its key. */
export class ConfigError extends ModelError {
  override name = "ConfigError";
  readonly field?: string;

  constructor(message: string, options: { code?: string; field?: string; hint?: string; cause?: unknown } = {}) {
    super(options.code ?? "unsupported_config", message, options);
    if (options.field !== undefined) this.field = options.field;
  }
}

/** A weight file that is corrupt, truncated, malicious or does not match its model. */
export class WeightsError extends ModelError {
  override name = "WeightsError";
  readonly tensor?: string;
  readonly file?: string;

  constructor(
    message: string,
    options: { code?: string; tensor?: string; file?: string; hint?: string; cause?: unknown } = {},
  ) {
    super(options.code ?? "bad_weights", message, options);
    if (options.tensor !== undefined) this.tensor = options.tensor;
    if (options.file !== undefined) this.file = options.file;
  }
}

/** A tokenizer that cannot be read, or text that it cannot encode. */
export class TokenizerError extends ModelError {
  override name = "TokenizerError";
  constructor(message: string, options: { code?: string; hint?: string; cause?: unknown } = {}) {
    super(options.code ?? "bad_tokenizer", message, options);
  }
}
