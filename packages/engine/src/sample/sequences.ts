/**
 * Decoding sequences as the sampler uses them: with the KV cache in host arrays (`host-sequences.ts`) or in pages on a device
 * (`device/paged-sequences.ts`).
 */
import type { AdapterWeights } from "../adapter/adapter.ts";
import type { Choice } from "./choose-token.ts";
import type { KvBlock } from "./kv-block.ts";
import type { Prefilled, PrefillJob } from "./prefill.ts";
import type { Distribution } from "./prefix-cache.ts";

/** Parameters of a draw without the distribution. */
export interface DrawOptions {
  readonly greedy: boolean;
  readonly choice: Choice;
  /** In [0, 1); ignored for a greedy draw. */
  readonly random: number;
  /** Number of most likely tokens to list. */
  readonly top: number;
}

/** The next step of one sequence. */
export interface DecodeRow {
  readonly token: number;
  readonly adapter: AdapterWeights | undefined;
  /** 1 / temperature. */
  readonly coldness: number;
  /** Waiting for a format's mask: no token is added, and the result is not used. */
  readonly isHeld: boolean;
  /** Absent if the distribution itself is requested. */
  readonly draw: DrawOptions | undefined;
}

/** A token drawn on the device. */
export interface Drawn {
  readonly token: number;
  readonly logprob: number;
  /** The most likely tokens, most likely first. */
  readonly top: readonly (readonly [token: number, logprob: number])[];
}

/** Result of a step for one sequence: the drawn token, or its distribution, which is valid until the next step. */
export type Decoded = { readonly drawn: Drawn } | { readonly distribution: Distribution };

export interface Sequences {
  /** Maximum tokens of a prompt run. */
  readonly mostPromptTokens: number;
  /** Whether steps draw tokens; if not, `draw` is ignored. */
  readonly draws: boolean;
  /** Whether the memory was allocated once: then waiting prefilled prompts cannot use more, either. */
  readonly isBounded: boolean;
  /** Bytes of the sequences. */
  readonly bytes: number;
  /** Bytes for this many sequences of up to this many tokens. */
  bytesFor(sequences: number, length: number): number;
  /** Appends a sequence that starts with these blocks. */
  adopt(blocks: readonly KvBlock[]): void;
  /** Removes a sequence; the last one moves to its index. */
  remove(row: number): void;
  /** Removes all sequences after a failure that leaves them in an unknown state. */
  clear(): void;
  /** See `prefill.ts`. */
  prefill(jobs: readonly PrefillJob[]): Promise<readonly Prefilled[] | undefined>;
  /** One new token of every sequence, in the order in which they were added. */
  decode(rows: readonly DecodeRow[]): Promise<readonly Decoded[]>;
  /** Called when no sequence is active: copies of adapters can be freed. */
  forgetAdapters(): void;
  dispose(): Promise<void>;
}
