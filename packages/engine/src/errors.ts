/**
 * The engine's errors; errors about a model and its files are in `@tinklet/models`. All are `ModelError`s with a stable `code` and, where a
 * fix is known, a `hint`. A server maps `InputError` and `ConfigError` to client errors and the rest to server errors.
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

/** Base class of the engine's own errors. */
export class EngineError extends ModelError {
  override name = "EngineError";
}

/** Invalid input from the caller; `field` is the path of the value, for example `data[3].lossFnInputs.weights`. */
export class InputError extends EngineError {
  override name = "InputError";
  readonly field: string;

  constructor(field: string, message: string, options: { code?: string; hint?: string; cause?: unknown } = {}) {
    super(options.code ?? "bad_input", `${field}: ${message}`, options);
    this.field = field;
  }
}

/** A response format whose grammar exceeds the work or memory limit of one request; `used` and `limit` are in steps or bytes. */
export class GrammarTooLargeError extends InputError {
  override name = "GrammarTooLargeError";
  readonly used: number;
  readonly limit: number;

  constructor(field: string, message: string, { used, limit }: { readonly used: number; readonly limit: number }) {
    super(field, message, { code: "grammar_too_large" });
    this.used = used;
    this.limit = limit;
  }
}

/** The work does not fit the memory budget; reported before it starts. */
export class MemoryError extends EngineError {
  override name = "MemoryError";
  readonly neededBytes?: number;
  readonly budgetBytes?: number;

  constructor(message: string, options: { neededBytes?: number; budgetBytes?: number; hint?: string } = {}) {
    super("memory_budget", message, options);
    if (options.neededBytes !== undefined) this.neededBytes = options.neededBytes;
    if (options.budgetBytes !== undefined) this.budgetBytes = options.budgetBytes;
  }
}

/**
 * A device failure. `device_memory`: too little memory for the attempted work, device unchanged; `device_lost`: the device is unusable
 * until the engine is opened again; `no_device`: no device of the requested kind.
 */
export class DeviceError extends EngineError {
  override name = "DeviceError";
  constructor(
    code: "device_memory" | "device_lost" | "no_device",
    message: string,
    options: { hint?: string; cause?: unknown } = {},
  ) {
    super(code, message, options);
  }
}
