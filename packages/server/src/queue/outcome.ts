/** What a finished request leaves behind: its result, and what is stored together with it. */
import { stringifyJson } from "tinklet/wire";
import type { Sql } from "../store/database.ts";
import type { PayloadType } from "../store/requests.ts";

/** What running a request gave. `effects` are stored in the same transaction as the result. */
export interface Outcome {
  readonly body: Uint8Array;
  readonly type: PayloadType;
  readonly effects?: (sql: Sql, position: number) => void;
}

export const jsonOutcome = (body: unknown, effects?: Outcome["effects"]): Outcome => ({
  body: new TextEncoder().encode(stringifyJson(body)),
  type: "json",
  ...(effects === undefined ? {} : { effects }),
});
