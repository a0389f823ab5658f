/**
 * Passes as JSON, which older clients send and older servers return. Current clients use the binary form (`proto/tensors.ts`), so
 * only servers and the low-level calls need this file.
 */

import { describe, isPlainObject } from "../describe.ts";
import {
  at,
  custom,
  type Field,
  FieldProblem,
  float,
  int,
  list,
  map,
  openWord,
  optional,
  string,
  withDefault,
} from "../schema/fields.ts";
import { type Message, message } from "../schema/message.ts";
import { Datum, type LossFnOutput } from "../values/datum.ts";
import { ModelInput } from "../values/model-input.ts";
import {
  asFieldProblem,
  ForwardBackwardOutput,
  type LossFnConfig,
  type LossFnType,
  lossFnTypes,
  type ModelID,
  tensorField,
} from "./training.ts";

/** `Datum` as JSON. */
export const datumField: Field<Datum> = custom<Datum>(
  { type: "message", name: "Datum" },
  (wire) => {
    if (!isPlainObject(wire)) throw new FieldProblem(`must be an object, not ${describe(wire)}`);
    const modelInput = at(
      () => "model_input",
      () => ModelInput.message.field.fromWire(wire["model_input"]),
    );
    const lossFnInputs = at(
      () => "loss_fn_inputs",
      () => map(tensorField).fromWire(wire["loss_fn_inputs"] ?? {}),
    );
    return asFieldProblem(() => new Datum({ modelInput, lossFnInputs }));
  },
  (value) => {
    if (!(value instanceof Datum)) throw new FieldProblem(`must be a Datum, not ${describe(value)}`);
    return {
      loss_fn_inputs: map(tensorField).toWire(value.lossFnInputs),
      model_input: ModelInput.message.field.toWire(value.modelInput),
    };
  },
);

const numberOrText = custom<number | string>(
  { type: "union", options: [{ type: "number" }, { type: "string" }] },
  (wire) => (typeof wire === "string" ? string().fromWire(wire) : float().fromWire(wire)),
  (value) => (typeof value === "string" ? string().toWire(value) : float().toWire(value)),
);

/** A batch and its loss. */
export interface ForwardBackwardInput {
  readonly data: readonly Datum[];
  readonly lossFn: LossFnType | (string & {});
  readonly lossFnConfig?: LossFnConfig;
}
export const ForwardBackwardInput = message<ForwardBackwardInput>("ForwardBackwardInput", {
  data: list(datumField),
  lossFn: openWord(...lossFnTypes),
  lossFnConfig: optional(map(numberOrText)),
});

/** One pass over a batch. */
export interface ForwardBackwardRequest {
  readonly forwardBackwardInput: ForwardBackwardInput;
  readonly modelId: ModelID;
  readonly seqId?: number;
  /** Compute the loss without gradients. Binary form only. */
  readonly forwardOnly?: boolean;
}
export const ForwardBackwardRequest = message<Omit<ForwardBackwardRequest, "forwardOnly">>("ForwardBackwardRequest", {
  forwardBackwardInput: ForwardBackwardInput.field,
  modelId: string(),
  seqId: optional(int()),
});

/** A pass without gradients, as older clients send it. */
export interface ForwardRequest {
  readonly forwardInput: ForwardBackwardInput;
  readonly modelId: ModelID;
  readonly seqId?: number;
}
export const ForwardRequest = message<ForwardRequest>("ForwardRequest", {
  forwardInput: ForwardBackwardInput.field,
  modelId: string(),
  seqId: optional(int()),
});

/** The output of a pass as JSON, which older servers return. */
export const forwardBackwardOutputJson: Message<ForwardBackwardOutput> = outputMessage();

function outputMessage(): Message<ForwardBackwardOutput> {
  interface Parts {
    readonly lossFnOutputType: string;
    readonly lossFnOutputs: readonly LossFnOutput[];
    readonly metrics: Readonly<Record<string, number>>;
  }
  const raw = message<Parts, "metrics">("ForwardBackwardOutput", {
    lossFnOutputType: string(),
    lossFnOutputs: list(map(tensorField)),
    metrics: withDefault(map(float()), {}),
  });
  const parts = (value: ForwardBackwardOutput): Parts => ({
    lossFnOutputType: value.lossFnOutputType,
    lossFnOutputs: value.lossFnOutputs,
    metrics: value.metrics,
  });
  return {
    name: raw.name,
    fields: raw.fields,
    encode: (value) => raw.encode(parts(value)),
    decode: (wire) => new ForwardBackwardOutput(raw.decode(wire)),
    field: {
      presence: "required",
      shape: raw.field.shape,
      toWire: (value) => raw.field.toWire(parts(value)),
      fromWire: (wire) => new ForwardBackwardOutput(raw.field.fromWire(wire)),
    },
  };
}
