/**
 * What newer releases added to a sample: checked before it is sent, sent only where it carries something, and missed where a server
 * passed over it.
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

interface Surroundings {
  readonly target: TensorData | undefined;
  readonly recordStabilityInfo: boolean;
  /** What the server has beyond the official API. */
  readonly extensions: readonly string[];
}

/**
 * The newer fields of a request.
 *
 * @throws {@link InvalidInputError} when one cannot be meant, {@link UnsupportedFeatureError} for a constraint where the server has none.
 */
export function newerParts(options: SampleOptions, { target, recordStabilityInfo, extensions }: Surroundings): Newer {
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

/** A copy, since it may be sent later. A server without the extension would draw as if nothing had been asked. */
function checkedConstraint(constraint: SampleConstraint, extensions: readonly string[]): SampleConstraint {
  if (!extensions.includes("constraint")) throw new UnsupportedFeatureError("tinklet_constraint");
  const checked = SampleConstraint.decode(structuredClone(SampleConstraint.encode(constraint)));
  if ((checked.schema === undefined) !== (checked.type === "json_object")) {
    throw new InvalidInputError("constraint.schema", "belongs to json_schema, and to nothing else");
  }
  return checked;
}

function whole(field: string, value: number | undefined, least = 0): number | undefined {
  if (value === undefined || (Number.isInteger(value) && value >= least)) return value;
  throw new InvalidInputError(field, `must be an integer from ${least} on, and is ${value}`);
}

function checkedTargets(tensor: TensorData): TensorData {
  const field = "targetPromptLogprobs";
  if (tensor.dtype !== "int64") throw new InvalidInputError(field, `must hold token ids (int64), not ${tensor.dtype}`);
  if (tensor.shape?.length !== 2) {
    throw new InvalidInputError(field, `must be [prompt length - 1, K], and is [${tensor.shape?.join(", ") ?? ""}]`);
  }
  return tensor;
}

/** @throws {@link UnsupportedFeatureError} when the server passed over something that was asked for. */
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
