/** Rejections of training data name the invalid value. */
import { expect, it } from "vitest";
import { InputError } from "../errors.ts";
import type { LossRequest, TensorInput } from "../types.ts";
import { checkRequest } from "./data.ts";

const limits = { vocabSize: 10, contextLength: 4 };
const floats = (...data: number[]): TensorInput => ({ data });
const request = (
  inputs: Record<string, TensorInput>,
  extra: Partial<LossRequest> = {},
  tokens = [1, 2],
): LossRequest => ({
  lossFn: "cross_entropy",
  ...extra,
  data: [{ tokens, lossFnInputs: { target_tokens: floats(3, 4), ...inputs } }],
});
/** A sparse tensor of two rows that stores nothing. */
const csr = (columns: number): TensorInput => ({
  data: [],
  shape: [2, columns],
  sparseCrowIndices: [0, 0, 0],
  sparseColIndices: [],
});
const policy = { logprobs: floats(-1, -2), advantages: floats(1, 0) };

it.each<[string, LossRequest]>([
  ["lossFn", request({}, { lossFn: "stable_reinforce" as "ppo" })],
  ["data", { lossFn: "cross_entropy", data: [] }],
  ["data[0].tokens", request({}, {}, [])],
  ["data[0].tokens", request({}, {}, [1, 2, 3, 4, 5])],
  ["data[0].tokens[1]", request({}, {}, [1, 10])],
  ["data[0].lossFnInputs.target_tokens[0]", request({ target_tokens: floats(-1, 2) })],
  ["data[0].lossFnInputs.target_tokens", request({ target_tokens: floats(1, 2, 3) })],
  ["data[0].lossFnInputs.weights", request({ weights: floats(1) })],
  ["data[0].lossFnInputs.weights[1]", request({ weights: floats(1, Number.NaN) })],
  ["data[0].lossFnInputs.mask", request({ mask: floats(1, 1) })],
  ["data[0].lossFnInputs.logprobs", request({ logprobs: floats(0, 0) })],
  ["data[0].lossFnInputs.advantages", request({ logprobs: floats(0, 0) }, { lossFn: "ppo" })],
  ["data[0].lossFnInputs.logprobs[0]", request({ ...policy, logprobs: floats(Number.NaN, 0) }, { lossFn: "ppo" })],
  [
    "data[0].lossFnInputs.clip_low_threshold",
    request({ ...policy, clip_low_threshold: floats(1, 1) }, { lossFn: "dro" }),
  ],
  ["lossFnConfig.beta", request({}, { lossFnConfig: { beta: 1 } })],
  ["lossFnConfig.beta", request(policy, { lossFn: "dro", lossFnConfig: { beta: Number.NaN } })],
  ["lossFnConfig", request(policy, { lossFn: "ppo", lossFnConfig: { clip_low_threshold: 2 } })],
  ["data[0].lossFnInputs.weights", request({ weights: { data: [1], shape: [2, 1], sparseCrowIndices: [0, 1] } })],
  [
    "data[0].lossFnInputs.target_tokens",
    request({ target_tokens: { data: [1], shape: [2, 2], sparseCrowIndices: [0, 1, 0], sparseColIndices: [0] } }),
  ],
  // dro compares with the sampler's log-prob for any advantage.
  ["data[0].lossFnInputs.logprobs[1]", request({ ...policy, logprobs: floats(-1, Number.NaN) }, { lossFn: "dro" })],
  [
    "data[0].lossFnInputs.clip_high_threshold[1]",
    request({ ...policy, clip_high_threshold: floats(1, Number.NaN) }, { lossFn: "cispo" }),
  ],
  [
    "data[0].lossFnInputs.clip_low_threshold[0]",
    request({ ...policy, clip_low_threshold: floats(1.3, 0) }, { lossFn: "ppo" }),
  ],
  [
    "data[0].lossFnInputs.clip_high_threshold[0]",
    request({ ...policy, clip_high_threshold: floats(0.7, 2) }, { lossFn: "ppo" }),
  ],
  // More columns than the vocabulary: rejected before any allocation.
  ...[1e15, 1e8, 11, 1.5].map((columns): [string, LossRequest] => [
    "data[0].lossFnInputs.target_tokens",
    request({ target_tokens: csr(columns) }),
  ]),
  ["data[0].lossFnInputs.weights", request({ weights: csr(1e15) })],
])("%s", (field, given) => {
  const error = (() => {
    try {
      checkRequest(given, limits);
    } catch (thrown) {
      return thrown;
    }
    return undefined;
  })();
  expect(error).toBeInstanceOf(InputError);
  expect(error).toMatchObject({ field });
});

it("lets a log-prob be missing where the position does not count", () => {
  const { data } = checkRequest(request({ ...policy, logprobs: floats(-1, Number.NaN) }, { lossFn: "ppo" }), limits);
  expect(data[0]!.position(1)).toMatchObject({ samplingLogprob: 0, advantage: 0, clipLow: 0.8, clipHigh: 1.2 });
});

it("lets a dro log-prob be missing where the position has no weight", () => {
  const inputs = { ...policy, logprobs: floats(-1, Number.NaN), weights: floats(1, 0) };
  const { data } = checkRequest(request(inputs, { lossFn: "dro" }), limits);
  expect(data[0]!.position(1)).toMatchObject({ samplingLogprob: 0, weight: 0 });
});

it("thresholds may be infinite, and crossed where the position does not count", () => {
  const inputs = {
    ...policy,
    clip_low_threshold: floats(Number.NEGATIVE_INFINITY, 3),
    clip_high_threshold: floats(Number.POSITIVE_INFINITY, 2),
  };
  const { data } = checkRequest(request(inputs, { lossFn: "ppo" }), limits);
  expect(data[0]!.position(0)).toMatchObject({ clipLow: Number.NEGATIVE_INFINITY, clipHigh: Number.POSITIVE_INFINITY });
});

it("thresholds per position go before configured ones", () => {
  const inputs = { ...policy, clip_high_threshold: floats(5, 6) };
  const { data } = checkRequest(
    request(inputs, { lossFn: "cispo", lossFnConfig: { clip_low_threshold: 0.5 } }),
    limits,
  );
  expect(data[0]!.position(1)).toMatchObject({ clipLow: 0.5, clipHigh: 6 });
});

it("takes int64 targets", () => {
  const { data } = checkRequest(request({ target_tokens: { data: BigInt64Array.of(3n, 4n) } }), limits);
  expect([...data[0]!.targets]).toEqual([3, 4]);
});
