/**
 * Delivers events to the caller's listener and messages to the logger at the configured level, with secrets redacted, and limits
 * repeated messages.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { EventListener, Logger, LogLevel, TinkletEvent } from "../events.ts";
import { environment } from "./environment.ts";
import { Redactor } from "./redact.ts";

const levels: readonly LogLevel[] = ["debug", "info", "warn", "error", "off"];

/** Minimum interval between two messages about the same subject. */
const repeatMs = 60_000;
/** Retries after shorter delays are logged at level debug. */
const notableDelayMs = 5_000;

export interface ReporterOptions {
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
  readonly logLevel?: LogLevel | undefined;
  readonly onEvent?: EventListener | undefined;
  readonly redactor?: Redactor;
}

/** `TINKER_LOG` as a level; unknown values are ignored. */
function environmentLevel(): LogLevel | undefined {
  const word = environment("TINKER_LOG")?.toLowerCase();
  return levels.find((level) => level === word);
}

export class Reporter {
  readonly redactor: Redactor;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #threshold: number;
  readonly #listener: EventListener | undefined;
  readonly #listeners = new Set<EventListener>();
  readonly #lastSaid = new Map<string, number>();

  constructor(options: ReporterOptions) {
    this.redactor = options.redactor ?? new Redactor();
    this.#clock = options.clock;
    this.#logger = options.logger ?? console;
    this.#threshold = levels.indexOf(options.logLevel ?? environmentLevel() ?? "warn");
    this.#listener = options.onEvent;
  }

  /** Adds an internal listener (telemetry, instruments). Returns a function that removes it. */
  listen(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  log(level: Exclude<LogLevel, "off">, message: string): void {
    if (levels.indexOf(level) < this.#threshold) return;
    // A logger that throws must not fail a training run.
    unharmed(() => this.#logger[level](this.redactor.text(`[tinklet] ${message}`)));
  }

  /** Logs a message about a subject, unless one was logged within the last minute. */
  logSometimes(level: Exclude<LogLevel, "off">, subject: string, message: string): void {
    const now = this.#clock.monotonic();
    const last = this.#lastSaid.get(subject);
    if (last !== undefined && now - last < repeatMs) return;
    if (this.#lastSaid.size > 1_000) this.#lastSaid.clear();
    this.#lastSaid.set(subject, now);
    this.log(level, message);
  }

  report(event: TinkletEvent): void {
    for (const listener of [this.#listener, ...this.#listeners]) {
      if (listener !== undefined) unharmed(() => listener(event));
    }
    this.#say(event);
  }

  #say(event: TinkletEvent): void {
    switch (event.type) {
      case "request.retry": {
        const text = `${event.operation}: ${event.reason}; attempt ${event.attempt + 1} in ${seconds(event.delayMs)}`;
        if (event.delayMs < notableDelayMs) this.log("debug", text);
        else this.logSometimes("warn", `retry ${event.operation}`, text);
        return;
      }
      case "billing.paused":
        this.logSometimes(
          "warn",
          "billing",
          `The service requires payment (402). Requests are paused and resume when billing is resolved; they fail in ${seconds(event.remainingMs)}.`,
        );
        return;
      case "future.queued":
        this.log("debug", `${event.requestType} ${event.requestId} is queued (${event.queueState})`);
        return;
      case "future.paused":
        this.logSometimes(
          "warn",
          `queue ${event.subject ?? event.requestType}`,
          `${event.requestType} is paused${event.subject === undefined ? "" : ` for ${event.subject}`}: ${event.reason ?? event.queueState}`,
        );
        return;
      case "future.slow":
        this.logSometimes(
          "warn",
          `slow ${event.subject ?? event.requestType}`,
          `${event.requestType}${event.requestId === "" ? "" : ` ${event.requestId}`} has been waiting for ${seconds(event.waitedMs)}${event.reason === undefined ? "" : `: ${event.reason}`}`,
        );
        return;
      case "future.done":
        this.log("debug", `${event.requestType} ${event.requestId} done after ${seconds(event.waitedMs)}`);
        return;
      case "future.failed":
        this.log("debug", `${event.requestType} ${event.requestId} failed: ${event.error.message}`);
        return;
      case "recovery":
        this.log("warn", event.message);
        return;
      case "session.message":
        this.log(event.level, event.message);
        return;
      case "session.heartbeat_failing":
        this.logSometimes(
          "warn",
          "heartbeat",
          `No heartbeat of session ${event.sessionId} has succeeded for ${seconds(event.sinceMs)}; the service may end the session.`,
        );
        return;
      default:
        event satisfies never;
    }
  }
}

/** Runs a user's callback; ignores its exceptions and rejections. */
function unharmed(run: () => unknown): void {
  try {
    const result = run() as PromiseLike<unknown> | undefined;
    if (typeof result?.then === "function") result.then(undefined, () => {});
  } catch {
    // Errors of callbacks are ignored.
  }
}

/** Formats a duration for messages. */
export function seconds(ms: number): string {
  if (ms > 0 && ms < 100) return `${Math.ceil(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${Number(s.toFixed(1))} s`;
  if (s < 120) return `${Math.round(s)} s`;
  return `${Math.round(s / 60)} min`;
}
