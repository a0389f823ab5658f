/** What a finished request leaves behind: its result, and what is stored together with it. */

import { stringifyJson } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import type { Sql } from "../store/database.ts";
import type { PayloadType } from "../store/tables/requests.ts";
import type { Usage } from "../store/tables/usage.ts";
import type { StepPart } from "./training/step-meter.ts";

/**
 * What running a request gave. `effects` are stored in the same transaction as the result; what they return replaces the body, for
 * results that name something which only the transaction can choose.
 */
export interface Outcome {
  readonly body: Uint8Array;
  readonly type: PayloadType;
  // biome-ignore lint/suspicious/noConfusingVoidType: most effects return nothing
  readonly effects?: (sql: Sql, position: number) => Uint8Array | void;
  /** What it is booked as. */
  readonly usage?: Usage;
  /** What it adds to its run's curve. */
  readonly part?: StepPart;
  /** The folder that was written for it, which the effects store an owner of. */
  readonly filesId?: string;
  /** Called when it is stored, or will never be. */
  readonly release?: () => void;
}

export const jsonBytes = (body: unknown): Uint8Array => new TextEncoder().encode(stringifyJson(body));

export const jsonOutcome = (body: unknown, effects?: Outcome["effects"], filesId?: string): Outcome => ({
  body: jsonBytes(body),
  type: "json",
  ...omitUndefined({ effects, filesId }),
});
