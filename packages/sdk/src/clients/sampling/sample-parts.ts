/**
 * Fields that newer releases added to sample requests. They are validated, sent only when set, and reported as unsupported if the
 * server ignored them.
 */

import {
  fieldsSince,
  SampleConstraint,
  type SampleRequest,
  type SampleResponse,
  type TensorData,
} from "@tinklet/wire/client";
import { InvalidInputError, UnsupportedFeatureError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import type { SampleOptions } from "./sampling-client.ts";

type Newer = Pick<
  SampleRequest,
  | "topkSampleLogprobs"
  | "targetPromptLogprobs"
  | "promptAltTokensK"
  | "promptLogprobsLastN"
  | "recordStabilityInfo"
  | "tinkletConstraint"
>;

interface ServerContext {
  readonly target: TensorData | undefined;
  readonly recordStabilityInfo: boolean;
  /** Extensions of the server beyond the official API. */
  readonly extensions: readonly string[];
}

/**
 * The newer fields of a request.
 *
 * @throws {@link InvalidInputError} for an invalid field, {@link UnsupportedFeatureError} for a constraint on a server without the
 * extension.
 */
export function newerParts(options: SampleOptions, { target, recordStabilityInfo, extensions }: ServerContext): Newer {
  const { promptLogprobsLastN } = options;
  if (promptLogprobsLastN !== undefined) {
    whole("promptLogprobsLastN", promptLogprobsLastN, 1);
    if (options.includePromptLogprobs !== true) {
      throw new InvalidInputError("promptLogprobsLastN", "applies to prompt log-probs; set includePromptLogprobs");
    }
  }
  return omitUndefined({
    topkSampleLogprobs: whole("topkSampleLogprobs", options.topkSampleLogprobs) || undefined,
    targetPromptLogprobs: target && checkedTargets(target),
    promptAltTokensK: whole("promptAltTokensK", options.promptAltTokensK) || undefined,
    promptLogprobsLastN,
    recordStabilityInfo: recordStabilityInfo || undefined,
    tinkletConstraint: options.constraint && checkedConstraint(options.constraint, extensions),
  });
}

/** Returns a copy, because it may be sent later. A server without the extension would ignore the constraint, so this is an error. */
function checkedConstraint(constraint: SampleConstraint, extensions: readonly string[]): SampleConstraint {
  if (!extensions.includes("constraint")) throw new UnsupportedFeatureError("tinklet_constraint");
  const checked = SampleConstraint.decode(structuredClone(SampleConstraint.encode(constraint)));
  if ((checked.schema === undefined) !== (checked.type === "json_object")) {
    throw new InvalidInputError("constraint.schema", "is only valid with type json_schema");
  }
  return checked;
}

function whole(field: string, value: number | undefined, least = 0): number | undefined {
  if (value === undefined || (Number.isInteger(value) && value >= least)) return value;
  throw new InvalidInputError(field, `must be an integer of at least ${least}, got ${value}`);
}

function checkedTargets(tensor: TensorData): TensorData {
  const field = "targetPromptLogprobs";
  if (tensor.dtype !== "int64")
    throw new InvalidInputError(field, `must have dtype int64 (token ids), got ${tensor.dtype}`);
  if (tensor.shape?.length !== 2) {
    throw new InvalidInputError(
      field,
      `must have shape [prompt length - 1, K], got [${tensor.shape?.join(", ") ?? ""}]`,
    );
  }
  return tensor;
}

/** @throws {@link UnsupportedFeatureError} when the response lacks a requested field. */
export function checkHonoured(request: Newer, response: SampleResponse): void {
  const lacks = (field: string) => {
    throw new UnsupportedFeatureError(field, fieldsSince[field]!);
  };
  const { sequences, promptLogprobArray: scored } = response;
  if (request.promptAltTokensK && response.promptAltTokens === undefined) lacks("prompt_alt_tokens_k");
  if (request.targetPromptLogprobs && response.targetPromptLogprobs === undefined) lacks("target_prompt_logprobs");
  if (request.topkSampleLogprobs && sequences.some((each) => each.topkSampledLogprobs === undefined)) {
    lacks("topk_sample_logprobs");
  }
  const { promptLogprobsLastN: last } = request;
  if (last !== undefined && scored?.subarray(0, -last).some((value) => !Number.isNaN(value))) {
    lacks("prompt_logprobs_last_n");
  }
}
