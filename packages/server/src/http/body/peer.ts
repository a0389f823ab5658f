/** The connection that a request came on, as far as answering it needs one. Requests within the process have none. */
import type { BodySource } from "./body.ts";

export interface Peer {
  /** Remote address: the tenant of requests without a valid key. */
  readonly address: string;
  /** The request's body as it arrives. */
  readonly body: BodySource;
  /** Counts the connection for the tenant of a valid key. @throws Refusal 429 when that tenant's share of connections is used up */
  readonly identified: (tenant: string) => void;
  /** Calls `run` once, when the answer is sent or the connection is closed. */
  readonly onSent: (run: () => void) => void;
}
