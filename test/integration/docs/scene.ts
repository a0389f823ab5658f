/** What the examples in doc comments take as given: a service that computes nothing, its clients, and some data. */
import {
  autodiff,
  Datum,
  ModelInput,
  type RestClient,
  type SamplingClient,
  ServiceClient,
  type TrainingClient,
} from "tinklet";

export interface Scene {
  readonly service: ServiceClient;
  readonly trainer: TrainingClient;
  readonly sampler: SamplingClient;
  readonly rest: RestClient;
  readonly prompt: ModelInput;
  readonly datum: Datum<"target_tokens" | "weights">;
  readonly batch: readonly Datum<"target_tokens" | "weights">[];
  readonly batches: readonly (readonly Datum<"target_tokens" | "weights">[])[];
  readonly pairs: readonly Datum<"target_tokens" | "weights">[];
  readonly logprobs: autodiff.Var;
  readonly samplingLogprobs: readonly number[];
  readonly advantages: readonly number[];
  readonly tokenizer: { encode(text: string): number[] };
}

/** Everything of the scene is made anew for each example; the server is the one that the environment names. */
export async function scene(): Promise<Scene> {
  const service = new ServiceClient({ logLevel: "off" });
  const trainer = await service.createLoraTrainingClient({ baseModel: "stub/model", rank: 8 });
  const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
  const prompt = ModelInput.fromInts([1, 2, 3]);
  const datum = new Datum({ modelInput: prompt, lossFnInputs: { target_tokens: [2, 3, 4], weights: [0, 1, 1] } });
  const batch = [datum, datum];
  return {
    service,
    trainer,
    sampler,
    rest: service.createRestClient(),
    prompt,
    datum,
    batch,
    batches: [batch, batch],
    pairs: batch,
    logprobs: autodiff.leaf([-1, -0.5, -0.25]),
    samplingLogprobs: [-1.1, -0.4, -0.25],
    advantages: [1, -1, 0.5],
    tokenizer: { encode: (text) => Array.from(text, (letter) => letter.charCodeAt(0)) },
  };
}
