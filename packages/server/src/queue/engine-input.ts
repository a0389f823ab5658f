/**
 * Converts stored payloads to engine calls and engine results to response bytes. Rejects what the engine does not support (images,
 * audio, unknown losses) with the field's name on the wire.
 */
import type {
  Constraint,
  SampleRequest as EngineSampleRequest,
  LossFnName,
  LossRequest,
  LossResult,
  SampleResult,
  TensorInput,
  TokenTable,
  TrainingDatum,
} from "@tinklet/engine";
import { InputError } from "@tinklet/engine/errors";
import {
  decodeForwardBackwardRequest,
  encodeForwardBackwardOutput,
  encodeSampleResponse,
  ForwardBackwardOutput,
  ForwardBackwardRequest,
  ForwardRequest,
  type LossFnConfig,
  type ModelInput,
  parseJson,
  type SampleConstraint,
  SampledSequence,
  type SampleRequest,
  SampleResponse,
  TensorData,
  type TopkLogprobs,
} from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import type { PayloadType } from "../store/tables/requests.ts";
import { type TargetCells, targetCells } from "./sampling/prompt-targets.ts";

/** The body of a JSON payload. */
export const jsonPayload = (payload: Uint8Array): unknown => parseJson(new TextDecoder().decode(payload));

/** Decodes a stored pass from JSON or protobuf. */
export function decodePass(payload: Uint8Array, type: PayloadType): ForwardBackwardRequest {
  if (type === "proto") return decodeForwardBackwardRequest(payload);
  const body = jsonPayload(payload);
  if (typeof body === "object" && body !== null && "forward_input" in body) {
    const { forwardInput, ...rest } = ForwardRequest.decode(body);
    return { ...rest, forwardBackwardInput: forwardInput, forwardOnly: true };
  }
  return ForwardBackwardRequest.decode(body);
}

/** Token ids of an input. @throws {@link InputError} for anything but text. */
export function textTokens(input: ModelInput, field: string): Int32Array {
  const parts = input.chunks.map((chunk, i) => {
    if (chunk.type !== "encoded_text") {
      throw new InputError(
        `${field}.chunks[${i}]`,
        `must be encoded_text (this model accepts text only), got ${chunk.type}`,
      );
    }
    return chunk.tokens;
  });
  const [only] = parts;
  if (parts.length === 1 && only instanceof Int32Array) return only;
  const tokens = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    tokens.set(part, at);
    at += part.length;
  }
  return tokens;
}

/** The losses of the engine. Other names are rejected. */
const servedLosses: Readonly<Record<LossFnName, true>> = {
  cross_entropy: true,
  importance_sampling: true,
  ppo: true,
  cispo: true,
  dro: true,
  gspo: true,
};
const isServed = (name: string): name is LossFnName => Object.hasOwn(servedLosses, name);

export function lossRequest(pass: ForwardBackwardRequest): LossRequest {
  const { data, lossFn, lossFnConfig } = pass.forwardBackwardInput;
  if (!isServed(lossFn)) {
    throw new InputError("loss_fn", `${JSON.stringify(lossFn)} is not supported by this server`, {
      hint: `Supported: ${Object.keys(servedLosses).join(", ")}.`,
    });
  }
  return {
    data: data.map(
      (datum, i): TrainingDatum => ({
        tokens: textTokens(datum.modelInput, `data[${i}].model_input`),
        lossFnInputs: Object.fromEntries(
          Object.entries(datum.lossFnInputs).map(([key, value]) => [key, tensor(value)]),
        ),
      }),
    ),
    lossFn,
    ...omitUndefined({ lossFnConfig: lossFnConfig && numbersOf(lossFnConfig) }),
  };
}

/** The configuration of an engine loss: numbers only. */
function numbersOf(config: LossFnConfig): Record<string, number> {
  for (const [key, value] of Object.entries(config)) {
    if (typeof value !== "number")
      throw new InputError(`loss_fn_config.${key}`, `must be a number, got ${typeof value}`);
  }
  return config as Record<string, number>;
}

const tensor = (value: TensorData): TensorInput => ({
  data: value.values,
  ...omitUndefined({
    shape: value.shape,
    sparseCrowIndices: value.sparseCrowIndices,
    sparseColIndices: value.sparseColIndices,
  }),
});

/** The result of a pass as bytes. It has one output per datum, because the client weights means by the number of outputs. */
export function passResult(result: LossResult): Uint8Array {
  const outputs = result.lossFnOutputs.map((output) =>
    Object.fromEntries(
      Object.entries(output).map(([name, { data, shape }]) => [name, TensorData.from(data, { shape, field: name })]),
    ),
  );
  return encodeForwardBackwardOutput(
    new ForwardBackwardOutput({ lossFnOutputType: "ArrayRecord", lossFnOutputs: outputs, metrics: result.metrics }),
  );
}

/** A sample as an engine request. `seed` was chosen when the request was accepted. */
export function sampleRequest(request: SampleRequest, adapter: string | undefined, seed: number): EngineSampleRequest {
  const { maxTokens, stop, temperature, topK, topP } = request.samplingParams;
  const { promptLogprobsLastN, topkSampleLogprobs, promptAltTokensK, tinkletConstraint } = request;
  return {
    prompt: textTokens(request.prompt, "prompt"),
    ...omitUndefined({ adapter }),
    numSamples: request.numSamples,
    params: {
      seed,
      temperature,
      topK,
      topP,
      ...omitUndefined({ maxTokens, stop, constraint: tinkletConstraint && constraintOf(tinkletConstraint) }),
    },
    promptLogprobs: request.promptLogprobs ?? false,
    topkPromptLogprobs: request.topkPromptLogprobs,
    ...omitUndefined({ promptLogprobsLastN, topkSampleLogprobs, promptAltTokensK }),
    ...omitUndefined({ targetPromptLogprobs: cellsOf(request)?.targets }),
  };
}

const constraintOf = ({ type, schema }: SampleConstraint): Constraint =>
  type === "json_object" ? { type } : { type, schema: schema ?? {} };

/** The cells of `target_prompt_logprobs`. Their number was checked when the request was accepted. */
const cellsOf = ({ prompt, targetPromptLogprobs }: SampleRequest): TargetCells | undefined =>
  targetPromptLogprobs && targetCells(targetPromptLogprobs, prompt.tokenCount, Number.POSITIVE_INFINITY);

const tableOf = (table: TokenTable | undefined): TopkLogprobs | undefined =>
  table && { ...table, length: table.tokenIds.length / table.k };

/** The result of a sample as bytes. */
export function sampleResult(request: SampleRequest, result: SampleResult): Uint8Array {
  const { targetPromptLogprobs, promptAltTokens: altTokens } = result;
  const shape = altTokens && [altTokens.tokenIds.length / altTokens.k, altTokens.k];
  return encodeSampleResponse(
    new SampleResponse({
      sequences: result.sequences.map(
        ({ topkLogprobs, ...sequence }) =>
          new SampledSequence({ ...sequence, topkSampledLogprobs: tableOf(topkLogprobs) }),
      ),
      promptLogprobs: result.promptLogprobs,
      topkPromptLogprobs: tableOf(result.topkPromptLogprobs),
      targetPromptLogprobs: targetPromptLogprobs && cellsOf(request)!.layOut(targetPromptLogprobs),
      promptAltTokens: altTokens && {
        tokens: TensorData.from(altTokens.tokenIds, { shape: shape! }),
        logprobs: TensorData.from(altTokens.logprobs, { shape: shape! }),
      },
      promptCacheHitTokens: result.promptCacheHitTokens,
    }),
  );
}
