/**
 * What a session tells the server about itself: its start and end, and failures. Batched, redacted, in the background; it
 * never delays a call and never breaks one. Off by option or `TINKER_TELEMETRY`.
 */
import { bounded, untilAborted } from "@tinklet/wire/abort";
import {
  type JsonValue,
  mirroredSdkVersion,
  type Severity,
  type TelemetryEvent,
  writeDuration,
} from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { entropy } from "@tinklet/wire/entropy";
import { APIError, APIStatusError, isUserError } from "@tinklet/wire/errors";
import { platformName, rawEnvironment } from "../../transport/environment.ts";
import type { Reporter } from "../../transport/report.ts";
import type { Transport } from "../../transport/transport.ts";

const batchSize = 100;
const flushEveryMs = 10_000;
const mostQueued = 10_000;
/** How long `close()` waits for the last events. */
const lastFlushMs = 2_000;

/** The same in every session of this process. */
const processUuid = entropy.uuid();

/** Whether the environment leaves telemetry on. */
export function telemetryEnabled(option: boolean | undefined): boolean {
  if (option !== undefined) return option;
  return ["1", "true", "yes", "on"].includes((rawEnvironment("TINKER_TELEMETRY") ?? "1").toLowerCase());
}

type EventFields<E> = E extends TelemetryEvent ? Omit<E, "eventId" | "eventSessionIndex" | "timestamp"> : never;

/** Events of one session on their way to the server. */
export class Telemetry {
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #reporter: Reporter;
  readonly #startedAtMs: number;
  #sessionId = `sessionless-${entropy.uuid()}`;
  #inSession = false;
  #queue: TelemetryEvent[] = [];
  #index = 0;
  #flushing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #warned = false;
  #closed = false;

  /** @param options.clock - its timers must not keep the process alive. */
  constructor(options: { readonly transport: Transport; readonly clock: Clock; readonly reporter: Reporter }) {
    this.#transport = options.transport;
    this.#clock = options.clock;
    this.#reporter = options.reporter;
    this.#startedAtMs = options.clock.monotonic();
  }

  /** The session exists. */
  begin(sessionId: string): void {
    this.#sessionId = sessionId;
    this.#inSession = true;
    this.#add({ event: "SESSION_START", severity: "INFO" });
  }

  /** Tells of something that happened. Values must be JSON; texts are redacted. */
  log(eventName: string, eventData: Readonly<Record<string, JsonValue>>, severity: Severity = "INFO"): void {
    const data = this.#reporter.redactor.value(eventData) as Record<string, JsonValue>;
    this.#add({ event: "GENERIC_EVENT", eventName, eventData: data, severity });
  }

  /** Tells of a failure that reached the caller. What the caller did wrong is a warning, the rest an error. */
  exception(error: Error): void {
    const clean = (text: string) => this.#reporter.redactor.text(text);
    const errorType = error.name;
    if (isUserError(error)) {
      const status = error instanceof APIStatusError ? { status_code: error.status } : {};
      this.log("user_error", { error_type: errorType, message: error.message, ...status }, "WARNING");
      return;
    }
    this.#add({
      event: "UNHANDLED_EXCEPTION",
      errorType,
      errorMessage: clean(error.message),
      ...(error.stack === undefined ? {} : { traceback: clean(error.stack) }),
      severity: "ERROR",
    });
  }

  #add(fields: EventFields<TelemetryEvent>): void {
    if (this.#closed) return;
    if (this.#queue.length >= mostQueued) {
      if (!this.#warned) this.#reporter.log("warn", "Telemetry cannot be sent; further events are dropped.");
      this.#warned = true;
      return;
    }
    const event = {
      ...fields,
      eventId: entropy.uuid(),
      eventSessionIndex: this.#index++,
      timestamp: new Date(this.#clock.now()),
    } as TelemetryEvent;
    this.#queue.push(event);
    this.#cancelTimer ??= this.#clock.timer(flushEveryMs, () => {
      this.#cancelTimer = undefined;
      void this.flush();
    });
  }

  /** Sends what is queued. Never rejects: what cannot be sent stays queued for the next time. */
  flush(signal?: AbortSignal): Promise<void> {
    this.#flushing ??= this.#send(signal).finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #send(signal: AbortSignal | undefined): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.slice(0, batchSize);
      try {
        await this.#transport.call(
          "telemetry",
          {
            events: batch,
            platform: platformName(),
            sdkVersion: mirroredSdkVersion,
            sessionId: this.#sessionId,
            processUuid,
          },
          { signal },
        );
      } catch (error) {
        if (!(error instanceof APIError)) this.#queue.splice(0, batch.length); // it would fail for ever
        if (!this.#closed) this.#retryLater();
        return;
      }
      this.#queue.splice(0, batch.length);
    }
  }

  #retryLater(): void {
    this.#cancelTimer ??= this.#clock.timer(flushEveryMs, () => {
      this.#cancelTimer = undefined;
      void this.flush();
    });
  }

  /** Ends the session's telemetry: one last event with the duration, one last try to send. */
  async close(): Promise<void> {
    if (this.#closed) return;
    if (this.#inSession) {
      const duration = writeDuration(this.#clock.monotonic() - this.#startedAtMs);
      this.#add({ event: "SESSION_END", duration, severity: "INFO" });
    }
    this.#closed = true;
    this.#cancelTimer?.();
    const late = () => new APIError("The last telemetry took too long.", { code: "timeout" });
    await bounded(this.#clock, { timeoutMs: lastFlushMs }, late, async (signal) => {
      if (this.#flushing !== undefined) await untilAborted(this.#flushing, signal);
      await this.flush(signal);
    }).catch(() => {}); // what could not be sent in time is lost with the session
  }
}
