import { InputError } from "@tinklet/engine";
import { expect, it } from "vitest";
import { wireField, wireMessage } from "./wire-field.ts";

it.each([
  ["data[3].tokens", "data[3].model_input"],
  ["data[3].tokens[1]", "data[3].model_input[1]"],
  ["data[0].lossFnInputs.targetTokens", "data[0].loss_fn_inputs.targetTokens"],
  ["lossFn", "loss_fn"],
  ["lossFnConfig.myKey", "loss_fn_config.myKey"],
  ["params.maxTokens", "sampling_params.max_tokens"],
  ["params.stop[2]", "sampling_params.stop[2]"],
  ["params.constraint.type", "tinklet_constraint.type"],
  ["params.constraint.schema/properties/aKey", "tinklet_constraint.schema/properties/aKey"],
  ["numSamples", "num_samples"],
  ["lora.rank", "lora_config.rank"],
  ["prompt[4]", "prompt[4]"],
  ["data[0].model_input.chunks[1]", "data[0].model_input.chunks[1]"],
  ["loss_fn_inputs.constructor", "loss_fn_inputs.constructor"],
  ["", ""],
])("the engine's %s is the wire's %s", (engine, wire) => {
  expect(wireField(engine)).toBe(wire);
});

it("only the field of a message is replaced", () => {
  expect(wireMessage(new InputError("params.topK", "-2 is not -1 or more"))).toBe(
    "sampling_params.top_k: -2 is not -1 or more",
  );
});
