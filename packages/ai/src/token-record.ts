/**
 * The token data in `providerMetadata.tinklet`: on results, what training needs; on the last part of a reply, its token ids, so that the
 * next prompt of a tool loop contains the tokens that were sampled.
 */
import type { SharedV3ProviderMetadata, SharedV3ProviderOptions } from "@ai-sdk/provider";

/** The model and the sampling settings of a turn. */
export interface SamplerRecord {
  /** The model id that the caller passed: a base model's name or a `tinker://` path. */
  readonly modelId: string;
  /** The base model, which determines the tokenizer. */
  readonly baseModel: string;
  /** The sampling session on the server. */
  readonly samplingSessionId: string;
  readonly temperature: number;
  /** -1: off. */
  readonly topK: number;
  /** 1: off. */
  readonly topP: number;
  /** Whether decoding was constrained to JSON or to a JSON schema. */
  readonly constrained: boolean;
}

/** The tokens of one turn, as `providerMetadata.tinklet` holds them. */
export interface TokenRecord {
  /** The whole prompt. */
  readonly promptTokenIds: readonly number[];
  /** The sampled tokens, including the end-of-turn token if one was sampled. */
  readonly tokenIds: readonly number[];
  /** Log-prob of each sampled token, before temperature; absent if the server returned none. */
  readonly logprobs?: readonly number[];
  /** The stop reason that the server reported. */
  readonly stopReason: string;
  readonly sampler: SamplerRecord;
}

/** The name of this provider in `providerMetadata` and `providerOptions`. */
export const metadataName = "tinklet";

/** @internal */
export const metadataOf = (record: TokenRecord): SharedV3ProviderMetadata =>
  ({ [metadataName]: record }) as unknown as SharedV3ProviderMetadata;

/** Metadata of the last part of a reply: its tokens without the prompt, because prompts would grow with the square of the turns. @internal */
export const partMetadata = (tokenIds: readonly number[]): SharedV3ProviderMetadata => ({
  [metadataName]: { tokenIds: [...tokenIds] },
});

/** The sampled tokens of a part of an earlier reply; undefined if another provider made the part. @internal */
export function tokensOfPart(options: SharedV3ProviderOptions | undefined): readonly number[] | undefined {
  const ids = options?.[metadataName]?.["tokenIds"];
  const areIds = Array.isArray(ids) && ids.length > 0 && ids.every((id) => Number.isInteger(id) && (id as number) >= 0);
  return areIds ? (ids as number[]) : undefined;
}
