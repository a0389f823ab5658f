/** What a browser server keeps between page loads, and the interface of its storage. Every change is one transaction. */
import type { AdapterState } from "@tinklet/engine";
import { TinkerError } from "@tinklet/wire/errors";

/** A training run. Its state (weights, moments, step) is stored under {@link runStateKey}. */
export interface RunRecord {
  readonly id: string;
  readonly baseModel: string;
  readonly lora: AdapterState["lora"];
  /** Optimizer steps in the stored state. */
  readonly step: number;
  /** Size of the stored state. */
  readonly bytes: number;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly userMetadata?: Readonly<Record<string, string>>;
}

export type CheckpointKind = "weights" | "sampler_weights";

/** A saved checkpoint. Its state is stored under its path. */
export interface CheckpointRecord {
  /** `tinker://RUN/weights/NAME` or `tinker://RUN/sampler_weights/NAME`. */
  readonly path: string;
  readonly runId: string;
  readonly kind: CheckpointKind;
  readonly name: string;
  readonly baseModel: string;
  readonly lora: AdapterState["lora"];
  readonly step: number;
  readonly bytes: number;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly userMetadata?: Readonly<Record<string, string>>;
}

/** A change of the storage: all of it is stored, or nothing. */
export interface StorageChange {
  readonly runs?: readonly RunRecord[];
  readonly checkpoints?: readonly CheckpointRecord[];
  readonly states?: ReadonlyMap<string, AdapterState>;
  readonly deletedRuns?: readonly string[];
  readonly deletedCheckpoints?: readonly string[];
  readonly deletedStates?: readonly string[];
}

/** The contents without the states. */
export interface StorageRecords {
  readonly runs: readonly RunRecord[];
  readonly checkpoints: readonly CheckpointRecord[];
}

/** Where a browser server keeps runs and checkpoints. */
export interface BrowserStorage {
  /** Its name in messages. */
  readonly name: string;
  records(): Promise<StorageRecords>;
  state(key: string): Promise<AdapterState | undefined>;
  /** Keys of the states of samplers without a name ({@link samplerStateKey}). */
  samplerStateKeys(): Promise<readonly string[]>;
  /** Stores a change as a whole. @throws {@link StorageError}; nothing of the change is then stored. */
  commit(change: StorageChange): Promise<void>;
  /** Releases the storage for other tabs. Idempotent. */
  close(): Promise<void>;
}

/** The key of a run's state, which is replaced after every optimizer step. */
export const runStateKey = (runId: string): string => `run:${runId}`;

const samplerPrefix = "sampler:";
/** The key of the weights of a sampler without a name. They are valid until the page is closed; the next page deletes them. */
export const samplerStateKey = (samplerId: string): string => `${samplerPrefix}${samplerId}`;
export const isSamplerStateKey = (key: string): boolean => key.startsWith(samplerPrefix);

/**
 * A failure of the storage: `storage_full`, `storage_in_use` (another tab has it), `storage_closed`, or `storage_failed`. The contents are
 * those from before the change.
 */
export class StorageError extends TinkerError {
  override readonly name = "StorageError";

  constructor(
    code: "storage_full" | "storage_in_use" | "storage_closed" | "storage_failed",
    message: string,
    options: { readonly hint?: string; readonly cause?: unknown } = {},
  ) {
    super(message, { code, ...options });
  }
}

/** The error of a change that does not fit. */
export const storageFull = (name: string, cause?: unknown): StorageError =>
  new StorageError(
    "storage_full",
    `The storage ${JSON.stringify(name)} of this page is full; the change was not stored.`,
    {
      hint: "Delete checkpoints or runs, or free space on the device, and send the request again.",
      cause,
    },
  );

/** Bytes of a state's values. */
export function stateBytes({ weights, optimizer }: AdapterState): number {
  const arrays = [
    ...Object.values(weights).map(({ data }) => data),
    ...Object.values(optimizer?.m ?? {}),
    ...Object.values(optimizer?.v ?? {}),
  ];
  return arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
}
