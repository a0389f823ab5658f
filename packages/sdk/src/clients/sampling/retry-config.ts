/**
 * Options for retries and concurrency of sampling, with the service's defaults.
 */
import { InvalidInputError } from "@tinklet/wire/errors";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";

/** Retries and concurrency of a sampling client. */
export interface RetryConfig {
  /** Maximum number of concurrent samples, within the server's limit. @defaultValue the server's limit, 2000 */
  readonly maxConnections?: number | undefined;
  /** Samples fail when none of this client has succeeded for this many milliseconds. @defaultValue 7200000 */
  readonly progressTimeoutMs?: number | undefined;
  /** Initial delay between two attempts, in milliseconds. @defaultValue 500 */
  readonly retryDelayBaseMs?: number | undefined;
  /** Maximum delay between two attempts, in milliseconds. @defaultValue 10000 */
  readonly retryDelayMaxMs?: number | undefined;
  /** Random fraction added to or taken from each delay. @defaultValue 0.25 */
  readonly jitterFactor?: number | undefined;
  /** Whether failed samples are retried. @defaultValue true */
  readonly enableRetryLogic?: boolean | undefined;
  /** Whether `progressTimeoutMs` applies. @defaultValue true */
  readonly enableStuckDetection?: boolean | undefined;
}

/** The names of {@link RetryConfig}. */
export const retryConfigNames: OptionNames<RetryConfig> = {
  maxConnections: true,
  progressTimeoutMs: true,
  retryDelayBaseMs: true,
  retryDelayMaxMs: true,
  jitterFactor: true,
  enableRetryLogic: true,
  enableStuckDetection: true,
};

export type FullRetryConfig = {
  readonly [K in Exclude<keyof RetryConfig, "maxConnections">]-?: NonNullable<RetryConfig[K]>;
} & {
  readonly maxConnections: number | undefined;
};

/** @throws {@link InvalidInputError} naming the field. */
export function fullRetryConfig(config: RetryConfig = {}): FullRetryConfig {
  checkOptions("retryConfig", config, retryConfigNames, "retryConfig");
  const full: FullRetryConfig = {
    maxConnections: config.maxConnections,
    progressTimeoutMs: config.progressTimeoutMs ?? 7_200_000,
    retryDelayBaseMs: config.retryDelayBaseMs ?? 500,
    retryDelayMaxMs: config.retryDelayMaxMs ?? 10_000,
    jitterFactor: config.jitterFactor ?? 0.25,
    enableRetryLogic: config.enableRetryLogic ?? true,
    enableStuckDetection: config.enableStuckDetection ?? true,
  };
  const positive = (key: "maxConnections" | "progressTimeoutMs" | "retryDelayBaseMs" | "retryDelayMaxMs") => {
    const value = full[key];
    if (value !== undefined && !(value > 0)) {
      throw new InvalidInputError(`retryConfig.${key}`, `must be above 0, got ${value}`);
    }
  };
  for (const key of ["maxConnections", "progressTimeoutMs", "retryDelayBaseMs", "retryDelayMaxMs"] as const)
    positive(key);
  if (!(full.jitterFactor >= 0 && full.jitterFactor <= 1)) {
    throw new InvalidInputError("retryConfig.jitterFactor", `must be between 0 and 1, got ${full.jitterFactor}`);
  }
  return full;
}

/** The delay before attempt `attempt + 1`, counted from 1; `random` in [0, 1). */
export function sampleDelayMs(config: FullRetryConfig, attempt: number, random: number): number {
  const delay = Math.min(config.retryDelayBaseMs * 2 ** (attempt - 1), config.retryDelayMaxMs);
  const jittered = delay + delay * config.jitterFactor * (2 * random - 1);
  return Math.min(Math.max(jittered, 0), config.retryDelayMaxMs);
}
