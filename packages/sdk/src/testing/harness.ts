/**
 * Helpers of the SDK's tests: a client over the stub server on a fake clock, a logger that records, and a function that advances time
 * until a promise settles.
 */

import { Datum, ModelInput } from "@tinklet/wire";
import { FakeClock } from "@tinklet/wire/testing";
import type { ClientOptions } from "../clients/options.ts";
import { ServiceClient } from "../clients/service-client.ts";
import type { Logger, TinkletEvent } from "../events.ts";
import { type StubOptions, StubServer } from "./stub-server.ts";

/** A logger that records its lines as `level: text`. */
export class MemoryLogger implements Logger {
  readonly lines: string[] = [];
  debug = (message: string): void => this.#keep("debug", message);
  info = (message: string): void => this.#keep("info", message);
  warn = (message: string): void => this.#keep("warn", message);
  error = (message: string): void => this.#keep("error", message);

  #keep(level: string, message: string): void {
    this.lines.push(`${level}: ${message}`);
  }

  /** The lines that contain a string. */
  with(text: string): string[] {
    return this.lines.filter((line) => line.includes(text));
  }
}

/** Event loop turns without a timer after which a promise is considered stuck. */
const mostIdle = 1_000;

/** Advances the clock timer by timer until a promise settles. */
export async function passTime<T>(clock: FakeClock, promise: PromiseLike<T>, limitMs = 100_000_000): Promise<T> {
  let settled = false;
  const watched = Promise.resolve(promise).finally(() => {
    settled = true;
  });
  watched.catch(() => {});
  const end = clock.monotonic() + limitMs;
  await clock.advance(0);
  for (let idle = 0; ; ) {
    if (settled) return watched;
    if (clock.monotonic() > end || idle === mostIdle) {
      throw new Error(`the promise did not settle; no timers remain at ${clock.monotonic()} ms`);
    }
    // Without a timer, real work may be in progress, such as loading a module.
    if (clock.nextDueMs === undefined) idle++;
    await clock.advance(clock.nextDueMs ?? 0);
  }
}

/** The error of a rejected promise. */
export async function failure(promise: PromiseLike<unknown>): Promise<Error & Record<string, unknown>> {
  try {
    await promise;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  throw new Error("did not fail");
}

/** A client over a stub on a fake clock, with recorded logs and events. */
export function harness(stubOptions: StubOptions = {}, clientOptions: ClientOptions = {}) {
  const clock = new FakeClock();
  const stub = new StubServer({ clock, ...stubOptions });
  const logger = new MemoryLogger();
  const events: TinkletEvent[] = [];
  const service = new ServiceClient({
    apiKey: "tml-test-key",
    baseUrl: "http://stub.example",
    fetch: stub.fetch,
    clock,
    logger,
    logLevel: "debug",
    onEvent: (event) => events.push(event),
    telemetry: false,
    ...clientOptions,
  });
  /** Advances the clock until a promise settles. */
  const run = <T>(promise: PromiseLike<T>) => passTime(clock, promise);
  return { clock, stub, logger, events, service, run };
}

/** A datum of three tokens, starting with `first`. */
export function datum(first = 1): Datum<"target_tokens" | "weights"> {
  return new Datum({
    modelInput: ModelInput.fromInts([first, first + 1, first + 2]),
    lossFnInputs: { target_tokens: [first + 1, first + 2, first + 3], weights: [1, 1, 1] },
  });
}

/** A batch of n data. */
export const batch = (n: number) => Array.from({ length: n }, (_, i) => datum(10 * (i + 1)));

/** A datum for the policy losses. */
export function policyDatum(first = 1): Datum<"target_tokens" | "logprobs" | "advantages"> {
  return new Datum({
    modelInput: ModelInput.fromInts([first, first + 1]),
    lossFnInputs: { target_tokens: [first + 1, first + 2], logprobs: [-0.5, -0.25], advantages: [1, -1] },
  });
}
