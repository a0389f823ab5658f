/** The types of handlers. */
import type { Operation, ReceivedOf, ResponseOf } from "@tinklet/wire";

export interface Call {
  /** The body as it arrived. */
  readonly bytes: Uint8Array;
  readonly headers: Headers;
  readonly signal: AbortSignal | undefined;
}

/** `undefined` is sent as an empty object; a `Response` is sent unchanged. */
type Answer<K extends Operation> = ResponseOf<K> | Response | undefined;

/** Handlers of some operations of the contract. */
export type HandlersOf<K extends Operation> = {
  readonly [Key in K]: (received: ReceivedOf<Key>, call: Call) => Promise<Answer<Key>> | Answer<Key>;
};
