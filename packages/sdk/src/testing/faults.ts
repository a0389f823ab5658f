/**
 * What can go wrong between a client and a server, as data: a fault is chosen per request by a script and carried out by
 * whoever delivers the answer, in process or over a socket.
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
  /** Nothing ever comes. */
  | "stall"
  /** Half the body comes, then nothing. */
  | "stall_mid_body"
  /** The body comes one byte a second. */
  | "slow_loris";

/** A fault. `executed` says whether the request was carried out before it went wrong. */
export type Fault =
  | {
      readonly kind: "status";
      readonly status: number;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
      readonly executed?: boolean;
    }
  | { readonly kind: "delivery"; readonly delivery: Exclude<Delivery, "whole">; readonly executed?: boolean }
  /** The body is cut, and the answer says that this is all. */
  | { readonly kind: "truncated" }
  /** The body is followed by so many bytes of noise. */
  | { readonly kind: "oversized"; readonly bytes: number }
  | { readonly kind: "content_type"; readonly contentType: string };

/** Chooses what goes wrong; `undefined` leaves a request alone. */
export type FaultScript = (call: StubCall) => Fault | undefined;

/** Faults in the order of the requests of one operation; after the last one all goes well. */
export function faultsInOrder(operation: Operation, faults: readonly (Fault | undefined)[]): FaultScript {
  let next = 0;
  return (call) => (call.operation === operation ? faults[next++] : undefined);
}

/** The first script that has a fault decides. */
export const anyOf =
  (...scripts: readonly FaultScript[]): FaultScript =>
  (call) => {
    for (const script of scripts) {
      const fault = script(call);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
