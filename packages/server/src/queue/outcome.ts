/** The outcome of a successful request: its result, and what is stored together with it. */

import { stringifyJson } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import type { Sql } from "../store/database.ts";
import type { PayloadType } from "../store/tables/requests.ts";
import type { Usage } from "../store/tables/usage.ts";
import type { StepPart } from "./training/step-meter.ts";

/**
 * The outcome of a request. `effects` run in the transaction that stores the result. A value that they return replaces the body: some
 * results contain an id that only the transaction can choose.
 */
export interface Outcome {
  readonly body: Uint8Array;
  readonly type: PayloadType;
  // biome-ignore lint/suspicious/noConfusingVoidType: most effects return nothing
  readonly effects?: (sql: Sql, position: number) => Uint8Array | void;
  /** Recorded in the tenant's usage. */
  readonly usage?: Usage;
  /** Its part of an optimizer step, for the loss curve of the run. */
  readonly part?: StepPart;
  /** The folder that was written for it; `effects` store the row that refers to the folder. */
  readonly filesId?: string;
  /** Called after the outcome was stored or storing it has failed. */
  readonly release?: () => void;
}

export const jsonBytes = (body: unknown): Uint8Array => new TextEncoder().encode(stringifyJson(body));

export const jsonOutcome = (body: unknown, effects?: Outcome["effects"], filesId?: string): Outcome => ({
  body: jsonBytes(body),
  type: "json",
  ...omitUndefined({ effects, filesId }),
});
