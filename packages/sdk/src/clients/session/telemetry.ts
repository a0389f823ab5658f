/**
 * Telemetry of a session: reports its start, its end and failures to the server. Events are batched and redacted and sent in the
 * background; telemetry never delays or fails a call. Disabled by option or `TINKER_TELEMETRY`.
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
/** Timeout of sending the last events in `close()`. */
const lastFlushMs = 2_000;

/** Identifies this process; shared by its sessions. */
const processUuid = entropy.uuid();

/** Whether telemetry is enabled, by option or environment. */
export function telemetryEnabled(option: boolean | undefined): boolean {
  if (option !== undefined) return option;
  return ["1", "true", "yes", "on"].includes((rawEnvironment("TINKER_TELEMETRY") ?? "1").toLowerCase());
}

type EventFields<E> = E extends TelemetryEvent ? Omit<E, "eventId" | "eventSessionIndex" | "timestamp"> : never;

/** The queue of telemetry events of one session. */
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

  /** Records the start of the session. */
  begin(sessionId: string): void {
    this.#sessionId = sessionId;
    this.#inSession = true;
    this.#add({ event: "SESSION_START", severity: "INFO" });
  }

  /** Records an event. Values must be JSON; strings are redacted. */
  log(eventName: string, eventData: Readonly<Record<string, JsonValue>>, severity: Severity = "INFO"): void {
    const data = this.#reporter.redactor.value(eventData) as Record<string, JsonValue>;
    this.#add({ event: "GENERIC_EVENT", eventName, eventData: data, severity });
  }

  /** Records a failure that the caller received. User errors have severity WARNING, others ERROR. */
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
      if (!this.#warned) this.#reporter.log("warn", "The telemetry queue is full; further events are dropped.");
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

  /** Sends queued events. Never rejects; events that could not be sent stay queued. */
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
        if (!(error instanceof APIError)) this.#queue.splice(0, batch.length); // a batch that cannot be encoded would fail every time
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

  /**
   * Records the end with the session's duration and sends the remaining events, without retries.
   *
   * @param options.isReachable - false: the server has not answered yet, so the events are dropped
   */
  async close({ isReachable }: { readonly isReachable: boolean }): Promise<void> {
    if (this.#closed) return;
    if (this.#inSession) {
      const duration = writeDuration(this.#clock.monotonic() - this.#startedAtMs);
      this.#add({ event: "SESSION_END", duration, severity: "INFO" });
    }
    this.#closed = true;
    this.#cancelTimer?.();
    if (!isReachable) return;
    const late = () => new APIError("Sending the last telemetry exceeded its timeout.", { code: "timeout" });
    await bounded(this.#clock, { timeoutMs: lastFlushMs }, late, async (signal) => {
      if (this.#flushing !== undefined) await untilAborted(this.#flushing, signal);
      await this.flush(signal);
    }).catch(() => {}); // events that were not sent in time are lost
  }
}
