/** The messages between the caller's thread and the engine's, and the serialization of errors. */
import type { DownloadProgress } from "@tinklet/models/bytes";
import type { TokenizerFiles } from "@tinklet/models/tokenizer";
import * as errors from "../errors.ts";
import type { PlainOptions } from "../open-core.ts";
import type { ModelInfo, TokenEvent } from "../types.ts";
import type { ArrayChunk, ArrayPlace } from "./chunked-transfer.ts";
import type { GateMemory } from "./native-call-gate.ts";

/** First message to a worker. */
export interface WorkerStart {
  readonly source: string;
  readonly options: PlainOptions;
  /** Shared memory in which the engine's thread marks native calls. */
  readonly gate: GateMemory;
  /** Shared memory of the lock that one thread of the process holds while it runs something on a device. */
  readonly deviceLock: Int32Array<SharedArrayBuffer>;
}

export type ToWorker =
  /** Stops opening; the answer is `failed`, or `ready` if the model is already open. */
  | { readonly type: "abort" }
  | {
      readonly type: "call";
      readonly id: number;
      readonly method: string;
      readonly args: readonly unknown[];
      /** Arrays of the arguments that follow in chunks. */
      readonly places?: readonly ArrayPlace[];
    }
  | { readonly type: "piece"; readonly id: number; readonly piece: ArrayChunk }
  | { readonly type: "cancel"; readonly id: number };

export type FromWorker =
  | { readonly type: "ready"; readonly info: ModelInfo; readonly tokenizerFiles?: TokenizerFiles }
  | { readonly type: "failed"; readonly error: PlainError }
  | { readonly type: "notice"; readonly message: string }
  | { readonly type: "progress"; readonly progress: DownloadProgress }
  | { readonly type: "token"; readonly id: number; readonly event: TokenEvent }
  | { readonly type: "result"; readonly id: number; readonly value: unknown }
  | { readonly type: "error"; readonly id: number; readonly error: PlainError };

/** An error as data, since structured clone drops its class and fields. */
export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export function toPlainError(error: unknown): PlainError {
  if (!(error instanceof Error)) return { name: "Error", message: String(error), fields: {} };
  const fields: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(error)) {
    if (["string", "number", "boolean"].includes(typeof value)) fields[key] = value;
  }
  return { name: error.name, message: error.message, fields };
}

/** Classes by literal name, because bundlers may rename them. */
const classes: Readonly<Record<string, { readonly prototype: Error }>> = { ...errors };

/** Restores the class by name; an unknown class becomes an EngineError with code `internal`. */
export function fromPlainError({ name, message, fields }: PlainError): Error {
  const known = Object.hasOwn(classes, name) ? name : "EngineError";
  const error = Object.create(classes[known]!.prototype) as Error;
  Object.assign(error, { name: known, message, code: "internal", ...fields });
  Error.captureStackTrace?.(error, fromPlainError); // not in every browser
  return error;
}
