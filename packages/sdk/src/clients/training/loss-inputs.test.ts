import { Datum, type LossFnType, ModelInput } from "@tinklet/wire";
import { InvalidInputError } from "@tinklet/wire/errors";
import { describe, expect, expectTypeOf, it } from "vitest";
import { batch, datum, policyDatum } from "../../testing/harness.ts";
import { checkBatch, type HasInputsFor, type MissingLossInputs } from "./loss-inputs.ts";
import type { TrainingClient } from "./training-client.ts";

const problem = (body: () => void) => {
  try {
    body();
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidInputError);
    return error as InvalidInputError;
  }
  throw new Error("did not throw");
};
const tokens = ModelInput.fromInts([1, 2]);
const loose = (lossFnInputs: Record<string, number[]>, modelInput = tokens) =>
  new Datum({ modelInput, lossFnInputs }) as Datum;

describe("checkBatch", () => {
  it("lets good batches pass, for every loss", () => {
    checkBatch(batch(2), "cross_entropy");
    checkBatch([loose({ target_tokens: [1, 2] })], "cross_entropy");
    for (const loss of ["importance_sampling", "ppo", "cispo", "dro"]) checkBatch([policyDatum()], loss);
    checkBatch([loose({})], "dppo", { allowUnknownLoss: true });
    checkBatch([loose({ target_tokens: [1, 2] })], "stable_reinforce", { lossFnConfig: { mode: "text" } });
    const { lossFnInputs } = policyDatum();
    checkBatch(
      [new Datum({ modelInput: tokens, lossFnInputs: { ...lossFnInputs, sequence_ratio_mask: [1, 0] } })],
      "gspo",
    );
    expect(problem(() => checkBatch([policyDatum()], "gspo")).field).toBe("data[0].lossFnInputs.sequence_ratio_mask");
    checkBatch([policyDatum()], "ppo", { lossFnConfig: { clip_low_threshold: 0.8 } });
  });

  it("names the field that a loss lacks", () => {
    for (const key of ["target_tokens", "logprobs", "advantages"]) {
      const inputs: Record<string, number[]> = { target_tokens: [1, 2], logprobs: [0, 0], advantages: [0, 0] };
      delete inputs[key];
      const error = problem(() => checkBatch([policyDatum(), loose(inputs)], "ppo"));
      expect(error.field).toBe(`data[1].lossFnInputs.${key}`);
      expect(error.hint).toBe("ppo reads target_tokens, logprobs, advantages.");
    }
    expect(problem(() => checkBatch([loose({ weights: [1, 1] })], "cross_entropy")).field).toContain("target_tokens");
  });

  it("names the loss, an empty batch, and what is no batch", () => {
    expect(problem(() => checkBatch(batch(1), "dppo")).field).toBe("lossFn");
    expect(problem(() => checkBatch([], "ppo")).field).toBe("data");
    expect(problem(() => checkBatch("x" as never, "ppo")).field).toBe("data");
    expect(problem(() => checkBatch([undefined as never], "ppo")).field).toBe("data[0]");
  });

  it("names a length that does not fit", () => {
    const error = problem(() => checkBatch([datum(), loose({ target_tokens: [1, 2, 3] })], "cross_entropy"));
    expect(error.message).toBe("data[1].lossFnInputs.target_tokens: must have one value per input token: 2, got 3");
    checkBatch(
      [
        new Datum({
          modelInput: tokens,
          lossFnInputs: {
            target_tokens: [
              [1, 2, 3],
              [4, 5, 6],
            ],
          },
        }) as Datum,
      ],
      "cross_entropy",
    );
  });

  it("leaves the length of inputs with images to the server", () => {
    const image = { type: "image", data: new Uint8Array(2), format: "png", expectedTokens: 9 } as const;
    checkBatch([loose({ target_tokens: [1, 2, 3] }, tokens.append(image))], "cross_entropy");
  });

  it("names a value that is not a number, with its position", () => {
    for (const bad of [Number.NaN, Infinity, -Infinity]) {
      const error = problem(() => checkBatch([loose({ target_tokens: [1, 2], weights: [1, bad] })], "cross_entropy"));
      expect(error.message).toBe(`data[0].lossFnInputs.weights: is ${bad} at position 1`);
    }
    const mixed = loose({ target_tokens: [1, 2], weights: [Infinity, -Infinity] });
    expect(problem(() => checkBatch([mixed], "cross_entropy")).message).toContain("Infinity at position 0");
  });

  it("names a configuration that is no number", () => {
    for (const value of ["0.2", Number.NaN, null]) {
      const error = problem(() => checkBatch([policyDatum()], "ppo", { lossFnConfig: { clip: value as number } }));
      expect(error.field).toBe("lossFnConfig.clip");
    }
  });

  it("names a pointer to an image, which only prompts may hold", () => {
    const pointer = { type: "image_asset_pointer", format: "png", location: "x", expectedTokens: 1 } as const;
    const error = problem(() =>
      checkBatch([loose({ target_tokens: [1] }, ModelInput.empty().append(pointer))], "cross_entropy"),
    );
    expect(error.field).toBe("data[0].modelInput.chunks[0]");
  });
});

// Checked by the compiler: a batch that lacks what its loss needs does not compile.
export function compileTime(trainer: TrainingClient, unknown: Datum[]): void {
  void trainer.forwardBackward([policyDatum()], "ppo");
  void trainer.forwardBackward(batch(1), "cross_entropy");
  void trainer.forwardBackward(unknown, "ppo"); // the compiler cannot know; the check does
  void trainer.step([policyDatum()], "dro");
  // @ts-expect-error advantages and logprobs are missing
  void trainer.forwardBackward(batch(1), "ppo");
  // @ts-expect-error the same for a forward pass
  void trainer.forward(batch(1), "importance_sampling");
  // @ts-expect-error and for a step
  void trainer.step(batch(1), "cispo");
  // @ts-expect-error the mask is missing
  void trainer.forwardBackward([policyDatum()], "gspo");
  // @ts-expect-error not a loss of the service
  void trainer.forwardBackward(batch(1), "dppo");
  void trainer.forwardBackward(batch(1), "dppo", { allowUnknownLoss: true });
  const fine: HasInputsFor<"ppo", "target_tokens" | "logprobs" | "advantages" | "weights"> = 1;
  void fine;
}

it("a misspelt loss is not told to bring other losses' inputs, by the compiler either", () => {
  expectTypeOf<HasInputsFor<LossFnType, "target_tokens">>().toEqualTypeOf<unknown>();
  expectTypeOf<HasInputsFor<"ppo", "target_tokens">>().toEqualTypeOf<MissingLossInputs<"logprobs" | "advantages">>();
});
