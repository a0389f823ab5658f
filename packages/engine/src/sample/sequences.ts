/**
 * Sequences that decode together, wherever their keys and values are: what the sampler needs of them. On the host they are arrays that are
 * handed to the runtime (`host-sequences.ts`), on a device pages that stay there (`device/paged-sequences.ts`).
 */
import type { AdapterWeights } from "../adapter/adapter.ts";
import type { KvBlock } from "./kv-block.ts";
import type { Choice } from "./pick.ts";
import type { Prefilled, PrefillJob } from "./prefill.ts";
import type { Distribution } from "./prefix-cache.ts";

/** How a token may be drawn without its distribution. */
export interface DrawOptions {
  readonly greedy: boolean;
  readonly choice: Choice;
  /** In [0, 1); ignored where the draw is greedy. */
  readonly random: number;
  /** So many of the likeliest tokens are listed. */
  readonly top: number;
}

/** The next step of one sequence. */
export interface DecodeRow {
  readonly token: number;
  readonly adapter: AdapterWeights | undefined;
  /** 1 / temperature. */
  readonly coldness: number;
  /** It waits for something else: nothing is added to it, and its result is not used. */
  readonly isHeld: boolean;
  /** Absent where the distribution itself is wanted. */
  readonly draw: DrawOptions | undefined;
}

/** A token that was drawn where the logits are. */
export interface Drawn {
  readonly token: number;
  readonly logprob: number;
  /** The likeliest tokens, in falling order. */
  readonly top: readonly (readonly [token: number, logprob: number])[];
}

/** What a step leaves for a sequence: its drawn token, or what it is drawn from. Distributions are valid until the next step. */
export type Decoded = { readonly drawn: Drawn } | { readonly distribution: Distribution };

export interface Sequences {
  /** Tokens that one run over prompts may have. */
  readonly mostPromptTokens: number;
  /** Whether steps draw tokens: otherwise `draw` is not looked at. */
  readonly draws: boolean;
  /** Whether their memory was allocated once, so that not even prompts that wait for a start may take more. */
  readonly isBounded: boolean;
  /** Bytes that sequences take. */
  readonly bytes: number;
  /** Bytes that so many sequences of up to so many tokens take. */
  bytesFor(sequences: number, length: number): number;
  /** Adds a sequence that begins with these blocks, behind all others. */
  adopt(blocks: readonly KvBlock[]): void;
  /** Removes a sequence; the last one takes its place. */
  remove(row: number): void;
  /** Removes all, after a failure that leaves them in an unknown state. */
  clear(): void;
  /** See `prefill.ts`. */
  prefill(jobs: readonly PrefillJob[]): Promise<readonly Prefilled[] | undefined>;
  /** One new token of every sequence, in the order in which they were added. */
  decode(rows: readonly DecodeRow[]): Promise<readonly Decoded[]>;
  /** Nothing is running: copies of adapters need not be kept. */
  forgetAdapters(): void;
  dispose(): Promise<void>;
}
