/**
 * What measures calls: the interface, and instruments that do nothing. `open-telemetry.ts` implements it and is loaded when the client
 * connects.
 */

/** Attributes of a span or measurement. */
export type Attributes = Readonly<Record<string, string | number>>;

/** One measured call. */
export interface Measured {
  set(attributes: Attributes): void;
  end(error?: unknown): void;
}

/** Measures calls. */
export interface Instruments {
  /** @param operation - the Python SDK's name of the call, for example `forward_backward`. */
  start(operation: string, attributes: Attributes): Measured;
  tokens(kind: "input" | "output", count: number, attributes: Attributes): void;
  /** `traceparent` and `tracestate` of the active context, by the application's propagator; empty without one. */
  traceHeaders(): Readonly<Record<string, string>>;
}

const nothing: Measured = { set: () => {}, end: () => {} };
export const noInstruments: Instruments = {
  start: () => nothing,
  tokens: () => {},
  traceHeaders: () => ({}),
};
