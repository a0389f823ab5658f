/** The connection of a request. Requests from this process have none. */
import type { BodySource } from "./body.ts";

export interface Peer {
  /** Remote address: the tenant of requests without a valid key. */
  readonly address: string;
  /** The request's body as it arrives. */
  readonly body: BodySource;
  /** Moves the connection to the tenant of a valid key. @throws Refusal 429 when that tenant would exceed its share of connections */
  readonly identified: (tenant: string) => void;
  /** Calls `run` once, when the response is sent or the connection is closed. */
  readonly onSent: (run: () => void) => void;
}
