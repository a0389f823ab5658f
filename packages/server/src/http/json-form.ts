/** Binary results as JSON. */
import {
  decodeForwardBackwardOutput,
  decodeSampleResponse,
  forwardBackwardOutputJson,
  tensorField,
  topkLists,
} from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";

/** A binary result as JSON, for clients of releases that cannot read protobuf results. */
export function jsonForm(bytes: Uint8Array, requestType: string | null): unknown {
  const isSample = requestType === "Sample" || (requestType === null && looksLikeSample(bytes));
  if (!isSample) return forwardBackwardOutputJson.encode(decodeForwardBackwardOutput(bytes));
  const response = decodeSampleResponse(bytes);
  return {
    type: "sample",
    sequences: response.sequences.map(({ stopReason, tokens, logprobs, topkSampledLogprobs: top }) => ({
      stop_reason: stopReason,
      tokens,
      ...omitUndefined({ logprobs, topk_logprobs: top && topkLists(top) }),
    })),
    ...omitUndefined({
      prompt_logprobs: response.promptLogprobs,
      topk_prompt_logprobs: response.topkPromptLogprobs,
      target_prompt_logprobs: response.targetPromptLogprobs && tensorField.toWire(response.targetPromptLogprobs),
      prompt_alt_tokens: response.promptAltTokens && {
        tokens: tensorField.toWire(response.promptAltTokens.tokens),
        logprobs: tensorField.toWire(response.promptAltTokens.logprobs),
      },
    }),
  };
}

/** Both messages begin with field 1: in a pass it is a string, which starts with a letter; in a sample it is a message. */
const looksLikeSample = (bytes: Uint8Array): boolean => bytes.byteLength < 3 || bytes[2]! < 0x41;
