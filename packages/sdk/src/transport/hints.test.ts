import { hintText } from "@tinklet/wire/errors";
import { expect, it } from "vitest";
import { type FailureFacts, hintFor } from "./hints.ts";

const hint = (facts: Partial<FailureFacts>) => {
  const found = hintFor({ operation: "optimStep", message: "", ...facts });
  return found === undefined ? undefined : hintText(found);
};

it("statuses that have a known remedy", () => {
  expect(hint({ status: 401 })).toContain("TINKER_API_KEY");
  expect(hint({ status: 402 })).toContain("payment method");
  expect(hint({ status: 403 })).toContain("weightsAccessToken");
  expect(hint({ status: 413 })).toContain("too large");
  expect(hint({ status: 429 })).toContain("number of concurrent calls");
  expect(hint({ status: 500 })).toBeUndefined();
  expect(hint({ status: 404 })).toBeUndefined();
});

it("rank", () => {
  expect(hint({ message: "Rank must be a power of 2", rank: 33 })).toMatch(/powers of two.*got 33/);
  expect(hint({ message: "invalid rank" })).toMatch(/powers of two up to the model's limit\. Try/);
  expect(hint({ message: "franky" })).toBeUndefined();
});

it("wrong kind of checkpoint", () => {
  expect(hint({ operation: "LoadWeights", path: "tinker://r/sampler_weights/x" })).toContain("saved for sampling");
  expect(hint({ operation: "loadWeights", path: "tinker://r/sampler_weights/x" })).toContain("saved for sampling");
  expect(hint({ operation: "weightsInfo", path: "tinker://r/sampler_weights/x" })).toContain("saved for sampling");
  expect(hint({ operation: "createSamplingSession", path: "tinker://r/weights/x" })).toContain("saveWeightsForSampler");
  expect(hint({ operation: "LoadWeights", path: "tinker://r/weights/x" })).toBeUndefined();
  expect(hint({ operation: "LoadWeights", path: "tinker://r/weights/x", message: "Not Found" })).toContain(
    "listCheckpoints",
  );
  expect(hint({ operation: "createSamplingSession", path: "tinker://r/sampler_weights/x" })).toBeUndefined();
  // Another account's: its kind has nothing to do with it.
  const message = 'There is no checkpoint "tinker://r/sampler_weights/x" that this key may read.';
  for (const operation of ["LoadWeights", "weightsInfo", "createSamplingSession"]) {
    for (const path of ["tinker://r/sampler_weights/x", "tinker://r/weights/x"]) {
      expect(hint({ operation, path, message })).toContain("belong to another account");
      expect(hint({ operation, path, status: 404 })).toContain("belong to another account");
    }
  }
});

it("context overflow, with the numbers", () => {
  expect(hint({ message: "prompt too long", promptTokens: 4000, maxTokens: 200, maxContextLength: 4096 })).toBe(
    "The input does not fit into the model's context: the input has 4000 tokens, maxTokens is 200, together 4200, the model's context is 4096. Shorten the input or lower maxTokens.",
  );
  expect(hint({ message: "exceeds the maximum sequence length", promptTokens: 7 })).toBe(
    "The input does not fit into the model's context: the input has 7 tokens. Shorten the input or lower maxTokens.",
  );
  expect(hint({ message: "context window exceeded", maxTokens: 7 })).toContain("context: maxTokens is 7.");
  expect(hint({ message: "max_model_len" })).toContain("context. Shorten");
});

it("values that are not numbers", () => {
  for (const message of ["loss is NaN", "found inf", "non-finite gradient", "Infinity in weights"]) {
    expect(hint({ message }), message).toContain("NaN or infinite");
  }
  expect(hint({ message: "information" })).toBeUndefined();
});

it("unknown models and servers", () => {
  const unknown = { operation: "createModel", baseModel: "org/m" };
  expect(hint({ ...unknown, status: 404 })).toContain("org/m is not served here");
  expect(hint({ ...unknown, message: "model org/m is not supported" })).toContain("getServerCapabilities");
  expect(hint({ operation: "CreateModel", message: "Unknown base model" })).toContain("The model is not served here");
  expect(hint({ operation: "clientConfig", status: 404, baseUrl: "http://x" })).toContain(
    "Check that http://x is a Tinker server",
  );
  expect(hint({ operation: "clientConfig", status: 404 })).toContain("Check that the base URL is a Tinker server");
});
