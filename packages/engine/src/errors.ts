/**
 * The errors of the engine: `EngineError` and its kinds here, those about a model and its files from `@tinklet/models`. All are
 * `ModelError`s with a stable `code` and, where there is something to do about it, a `hint`. Nothing here knows about HTTP: a server
 * maps `InputError` and `ConfigError` to the user's fault and the rest to its own.
 */
import { ModelError } from "@tinklet/models/config";

export {
  ConfigError,
  HubError,
  type HubErrorCode,
  ModelError,
  TokenizerError,
  WeightsError,
} from "@tinklet/models/config";

/** What the engine itself refuses or fails at. */
export class EngineError extends ModelError {}

/** The caller's data is at fault; `field` is the path of the value, for example `data[3].lossFnInputs.weights`. */
export class InputError extends EngineError {
  readonly field: string;

  constructor(field: string, message: string, options: { code?: string; hint?: string; cause?: unknown } = {}) {
    super(options.code ?? "bad_input", `${field}: ${message}`, options);
    this.field = field;
  }
}

/** A format whose grammar takes more work or memory than one request may; `used` and `limit` count steps or bytes. */
export class GrammarTooLargeError extends InputError {
  readonly used: number;
  readonly limit: number;

  constructor(field: string, message: string, { used, limit }: { readonly used: number; readonly limit: number }) {
    super(field, message, { code: "grammar_too_large" });
    this.used = used;
    this.limit = limit;
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

/**
 * A device failed, or cannot be had. `device_memory`: it has too little memory for what was tried, and is as it was before; `device_lost`:
 * nothing can be computed on it any longer, so that the engine has to be opened again; `no_device`: there is none of the wanted kind.
 */
export class DeviceError extends EngineError {
  constructor(
    code: "device_memory" | "device_lost" | "no_device",
    message: string,
    options: { hint?: string; cause?: unknown } = {},
  ) {
    super(code, message, options);
  }
}
