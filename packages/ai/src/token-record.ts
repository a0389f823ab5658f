/**
 * What a result tells about its tokens, in `providerMetadata.tinklet`: everything that training needs. Also the smaller note that travels
 * with the parts of a reply, so that the next prompt of a tool loop can go on from the very tokens that were drawn.
 */
import type { SharedV3ProviderMetadata, SharedV3ProviderOptions } from "@ai-sdk/provider";

/** Who drew the tokens, and how. */
export interface SamplerRecord {
  /** The model as it was asked for: a base model's name or a `tinker://` path. */
  readonly modelId: string;
  /** The model that the tokenizer belongs to. */
  readonly baseModel: string;
  /** The sampling session on the server. */
  readonly samplingSessionId: string;
  readonly temperature: number;
  /** -1: off. */
  readonly topK: number;
  /** 1: off. */
  readonly topP: number;
  /** The drawing was bound to a JSON schema or to JSON. */
  readonly constrained: boolean;
}

/** The tokens of one turn, as `providerMetadata.tinklet` holds them. */
export interface TokenRecord {
  /** The whole prompt. */
  readonly promptTokenIds: readonly number[];
  /** What was drawn, with the token that ended the turn where one did. */
  readonly tokenIds: readonly number[];
  /** Log-probability of each drawn token, before temperature; absent where the server gives none. */
  readonly logprobs?: readonly number[];
  /** Why the drawing ended, as the server says it. */
  readonly stopReason: string;
  readonly sampler: SamplerRecord;
}

/** The name of this provider in `providerMetadata` and `providerOptions`. */
export const metadataName = "tinklet";

/** @internal */
export const metadataOf = (record: TokenRecord): SharedV3ProviderMetadata =>
  ({ [metadataName]: record }) as unknown as SharedV3ProviderMetadata;

/** The note on the last part of a reply: its tokens alone, since prompts would grow with the square of the turns. @internal */
export const partMetadata = (tokenIds: readonly number[]): SharedV3ProviderMetadata => ({
  [metadataName]: { tokenIds: [...tokenIds] },
});

/** The tokens that a part of an earlier reply was drawn as; undefined where the part is another's. @internal */
export function tokensOfPart(options: SharedV3ProviderOptions | undefined): readonly number[] | undefined {
  const ids = options?.[metadataName]?.["tokenIds"];
  const areIds = Array.isArray(ids) && ids.length > 0 && ids.every((id) => Number.isInteger(id) && (id as number) >= 0);
  return areIds ? (ids as number[]) : undefined;
}
