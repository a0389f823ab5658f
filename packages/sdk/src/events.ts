/**
 * The events that the SDK emits, as one union. Events contain no headers and no keys. This file imports nothing.
 */

/** Metadata of a call ({@link OperationOptions.metadata}), on the events of its future. */
interface CallMetadata {
  readonly metadata?: Readonly<Record<string, string | number>>;
}

/** An event of the SDK, discriminated by `type`. */
export type TinkletEvent =
  | {
      readonly type: "request.retry";
      readonly operation: string;
      readonly attempt: number;
      readonly delayMs: number;
      readonly reason: string;
    }
  | {
      readonly type: "billing.paused";
      readonly operation: string;
      readonly elapsedMs: number;
      readonly remainingMs: number;
    }
  | (CallMetadata & {
      readonly type: "future.queued";
      readonly requestId: string;
      readonly requestType: string;
      readonly queueState: string;
      readonly reason?: string;
    })
  | (CallMetadata & {
      readonly type: "future.paused";
      readonly requestId: string;
      readonly requestType: string;
      /** Subject of the request: a model, a sampling session or a base model. */
      readonly subject?: string;
      readonly queueState: string;
      readonly reason?: string;
    })
  | (CallMetadata & {
      readonly type: "future.slow";
      /** Empty while the request has not been submitted. */
      readonly requestId: string;
      readonly requestType: string;
      readonly subject?: string;
      readonly waitedMs: number;
      readonly reason?: string;
    })
  | (CallMetadata & {
      readonly type: "future.done";
      readonly requestId: string;
      readonly requestType: string;
      readonly waitedMs: number;
    })
  | (CallMetadata & {
      readonly type: "future.failed";
      readonly requestId: string;
      readonly requestType: string;
      readonly error: Error;
    })
  | {
      /** A lost model of a client with `recovery`. */
      readonly type: "recovery";
      readonly stage: "lost" | "waiting" | "recovered" | "failed";
      /** The lost model; with `recovered`, the new one. */
      readonly modelId: string;
      readonly attempt: number;
      readonly message: string;
    }
  | { readonly type: "session.message"; readonly level: "info" | "warn" | "error"; readonly message: string }
  | { readonly type: "session.heartbeat_failing"; readonly sessionId: string; readonly sinceMs: number };

/** Receives events. Errors that the listener throws, or rejects with, are ignored. */
export type EventListener = (event: TinkletEvent) => void;

/** Log level: messages below it are not logged. */
export type LogLevel = "debug" | "info" | "warn" | "error" | "off";

/** Receives log messages. `console` is one. */
export interface Logger {
  debug(message: string, ...details: unknown[]): void;
  info(message: string, ...details: unknown[]): void;
  warn(message: string, ...details: unknown[]): void;
  error(message: string, ...details: unknown[]): void;
}
