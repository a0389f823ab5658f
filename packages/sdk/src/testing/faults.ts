/**
 * Faults between a client and a server, as data: a script chooses a fault per request, and the code that delivers the response (in
 * process or over a socket) executes it.
 */
import type { Operation } from "@tinklet/wire";

/** A request as a fault script sees it. */
export interface StubCall {
  /** Counts all requests from 0. */
  readonly index: number;
  readonly operation: Operation;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The decoded body, by the contract. */
  readonly body: unknown;
}

/** How an answer reaches the client. */
export type Delivery =
  | "whole"
  /** The connection breaks before the first byte. */
  | "reset"
  /** It breaks in the middle of the body. */
  | "reset_mid_body"
  /** No byte is sent. */
  | "stall"
  /** Half the body is sent, then nothing. */
  | "stall_mid_body"
  /** The body is sent at one byte per second. */
  | "slow_loris";

/** A fault. `executed`: whether the request was executed before the failure. */
export type Fault =
  | {
      readonly kind: "status";
      readonly status: number;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
      readonly executed?: boolean;
    }
  | { readonly kind: "delivery"; readonly delivery: Exclude<Delivery, "whole">; readonly executed?: boolean }
  /** The body is truncated, with a matching content length. */
  | { readonly kind: "truncated" }
  /** The body is followed by this many bytes of noise. */
  | { readonly kind: "oversized"; readonly bytes: number }
  | { readonly kind: "content_type"; readonly contentType: string };

/** Chooses the fault of a request; `undefined` for none. */
export type FaultScript = (call: StubCall) => Fault | undefined;

/** Faults in the order of the requests of one operation; later requests succeed. */
export function faultsInOrder(operation: Operation, faults: readonly (Fault | undefined)[]): FaultScript {
  let next = 0;
  return (call) => (call.operation === operation ? faults[next++] : undefined);
}

/** Combines scripts; the first fault is used. */
export const anyOf =
  (...scripts: readonly FaultScript[]): FaultScript =>
  (call) => {
    for (const script of scripts) {
      const fault = script(call);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
