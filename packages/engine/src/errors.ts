/**
 * The errors of the engine: one base class with a stable `code` and, where there is something to do about it, a `hint`.
 * A message names the field, tensor or file at fault, never only "invalid input". Nothing here knows about HTTP: a server
 * maps `InputError` and `ConfigError` to the user's fault and the rest to its own.
 */

/** Base of every error the engine throws on purpose. */
export class EngineError extends Error {
  /** Stable, machine-readable name of the failure, for example `"unsupported_field"`. */
  readonly code: string;
  /** What to do next, when that is known. */
  readonly hint?: string;

  constructor(code: string, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(options.hint ? `${message} (${options.hint})` : message, { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    if (options.hint !== undefined) this.hint = options.hint;
  }
}

/** A `config.json` (or an engine option) that cannot be honoured; `field` is the key at fault. */
export class ConfigError extends EngineError {
  readonly field?: string;

  constructor(message: string, options: { code?: string; field?: string; hint?: string; cause?: unknown } = {}) {
    super(options.code ?? "unsupported_config", message, options);
    if (options.field !== undefined) this.field = options.field;
  }
}

/** A weight file that is corrupt, truncated, hostile or does not match its model. */
export class WeightsError extends EngineError {
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

/** The caller's data is at fault; `field` is the path of the value, for example `data[3].weights`. */
export class InputError extends EngineError {
  readonly field: string;

  constructor(field: string, message: string, options: { code?: string; hint?: string; cause?: unknown } = {}) {
    super(options.code ?? "bad_input", `${field}: ${message}`, options);
    this.field = field;
  }
}

/** The work does not fit the memory budget, found before it was tried. */
export class MemoryError extends EngineError {
  readonly neededBytes?: number;
  readonly budgetBytes?: number;

  constructor(message: string, options: { neededBytes?: number; budgetBytes?: number; hint?: string } = {}) {
    super("memory_budget", message, options);
    if (options.neededBytes !== undefined) this.neededBytes = options.neededBytes;
    if (options.budgetBytes !== undefined) this.budgetBytes = options.budgetBytes;
  }
}

/** A tokenizer that cannot be read, or text it cannot handle. */
export class TokenizerError extends EngineError {
  constructor(message: string, options: { code?: string; hint?: string; cause?: unknown } = {}) {
    super(options.code ?? "bad_tokenizer", message, options);
  }
}
