/**
 * Calls that must be refused: wrong values, unknown names, checkpoints that do not fit. Each ends with a typed error, changes nothing, and
 * does not hold up the requests after it.
 */
import { ModelInput, type SamplingClient, type ServiceClient, TensorData, type TrainingClient } from "@tinklet/sdk";
import type { Random } from "./random.ts";

export interface MistakeContext {
  readonly service: ServiceClient;
  readonly trainer: TrainingClient;
  readonly random: Random;
  /** A name that a checkpoint of this model has. */
  readonly used: string | undefined;
  /** Paths of a checkpoint with its optimizer, and of weights for sampling. */
  readonly state: string | undefined;
  readonly weights: string | undefined;
  readonly baseModel: string;
}

/** Ids of requests that no server gave out: of this release, of an older one, and of none. */
export const madeUpIds = ["0".repeat(32), `k-${"0".repeat(16)}`, "word"] as const;

/** This mistake succeeds once the checkpoint of that name is gone. */
export const nameInUse = "a name that is used";

type Attempt = (signal: AbortSignal) => PromiseLike<unknown>;

const example = (more: object = {}, tokens: readonly number[] = [1, 2]) => ({
  modelInput: [...tokens],
  lossFnInputs: { target_tokens: tokens.map(() => 3), weights: tokens.map(() => 1), ...more },
});

const image = {
  modelInput: new ModelInput([
    { type: "encoded_text", tokens: [1] },
    { type: "image", data: new Uint8Array([1, 2, 3]), format: "png", expectedTokens: 1 },
  ]),
  lossFnInputs: { target_tokens: [1, 2], weights: [1, 1] },
};

/** Mistakes of a training client. */
export function trainingMistakes({
  service,
  trainer,
  random,
  used,
  state,
  weights,
  baseModel,
}: MistakeContext): [string, Attempt][] {
  const { modelId } = trainer;
  const seqId = 1_000_000 + random.below(1000);
  const mistakes: [string, Attempt][] = [
    ["an unknown loss", (signal) => trainer.forwardBackward([example()] as never, "no_such_loss" as never, { signal })],
    ["an image to a text model", (signal) => trainer.forwardBackward([image], "cross_entropy", { signal })],
    [
      "a setting that is no number",
      (signal) =>
        trainer.forwardBackward([example({ logprobs: [-1, -1], advantages: [1, 1] })] as never, "ppo", {
          signal,
          lossFnConfig: { clip_low_threshold: "low" } as never,
        }),
    ],
    ["a bad checkpoint name", (signal) => trainer.saveState("../x", { signal })],
    ["a time to live of 0", (signal) => trainer.saveState("ttl0", { signal, ttlSeconds: 0 })],
    ["an unknown checkpoint", (signal) => trainer.loadState(`tinker://${modelId}/weights/none`, { signal })],
    ["a path that is none", (signal) => trainer.loadState("tinker://nowhere", { signal })],
    [
      "an unknown loss id",
      (signal) =>
        trainer.forwardBackward([example()] as never, "custom", { signal, lossFnConfig: { loss_id: "none" } as never }),
    ],
    [
      "a custom loss without an id",
      (signal) => trainer.forwardBackward([example()] as never, "custom", { signal, lossFnConfig: {} as never }),
    ],
    ["a poll of a made-up id", (signal) => service.future(random.pick(madeUpIds), "OptimStep", { signal })],
    [
      "an optimizer step without settings",
      (signal) =>
        service.api
          .optimStep({ modelId, seqId, optimParams: { type: "muon" } } as never, { signal })
          .then(({ requestId }) => service.future(requestId, "OptimStep", { signal })),
    ],
    [
      "a custom loss that cannot run",
      async (signal) => {
        const loss = await service.createCustomLoss(
          ({ logprobs }) => ({ loss: logprobs.reshape([1000]).sum() }),
          { logprobs: 1 },
          { signal },
        );
        return trainer.forwardBackwardCustom([example()] as never, loss, { signal });
      },
    ],
    [
      "an optimizer that the server does not have",
      (signal) => trainer.optimStep({ type: "muon", learningRate: 0.1 } as never, { signal }),
    ],
    ["a time to live that is no number", (signal) => trainer.saveState("ttlx", { signal, ttlSeconds: "x" as never })],
    [
      "a token beyond the vocabulary",
      (signal) => trainer.forwardBackward([example({}, [1, 9999])] as never, "cross_entropy", { signal }),
    ],
    [
      "a setting that the loss does not have",
      (signal) =>
        trainer.forwardBackward([example({ logprobs: [-1, -1], advantages: [1, 1] })] as never, "ppo", {
          signal,
          lossFnConfig: { gamma: 1 } as never,
        }),
    ],
    [
      "a batch without targets",
      (signal) =>
        trainer.forwardBackward([{ modelInput: [1], lossFnInputs: { weights: [1] } }] as never, "cross_entropy", {
          signal,
        }),
    ],
  ];
  if (used !== undefined) {
    mistakes.push([nameInUse, (signal) => trainer.saveState(used, { signal })]);
  }
  if (weights !== undefined) {
    mistakes.push([
      "the optimizer of sampler weights",
      (signal) => trainer.loadStateWithOptimizer(weights, { signal }),
    ]);
  }
  if (state !== undefined) {
    mistakes.push([
      "a checkpoint of another rank",
      async (signal) => {
        const larger = await service.createLoraTrainingClient({ baseModel, rank: 9, signal });
        return larger.loadState(state, { signal });
      },
    ]);
  }
  return mistakes;
}

/** Mistakes of a sampling client. */
export function samplingMistakes(sampler: SamplingClient, random: Random, contextLength: number): [string, Attempt][] {
  const targets = (rows: number, token = 5n) =>
    TensorData.from(new BigInt64Array(rows * 2).fill(token), { shape: [rows, 2] });
  const prompt = [1, 2, 3];
  return [
    ["too many samples", (signal) => sampler.sample(prompt, { signal, numSamples: 100_000 })],
    ["a prompt beyond the context", (signal) => sampler.sample(new Array(contextLength + 1).fill(1), { signal })],
    ["an image in a prompt", (signal) => sampler.sample(image.modelInput, { signal })],
    ["targets of another length", (signal) => sampler.sample(prompt, { signal, targetPromptLogprobs: targets(9) })],
    ["no targets", (signal) => sampler.sample(prompt, { signal, targetPromptLogprobs: targets(2, -1n) })],
    [
      "a target that is no token",
      (signal) => sampler.sample(prompt, { signal, targetPromptLogprobs: targets(2, -7n) }),
    ],
    ["a stop of no text", (signal) => sampler.sample(prompt, { signal, samplingParams: { stop: [""] } })],
    ["a token beyond the vocabulary", (signal) => sampler.sample([1, 9999], { signal })],
    ["a prompt far beyond the context", (signal) => sampler.sample(new Array(30_000).fill(10), { signal })],
    ["too many targets", (signal) => sampler.sample(prompt, { signal, targetPromptLogprobs: wide() })],
    [
      "a temperature below 0",
      (signal) => sampler.sample(prompt, { signal, samplingParams: { temperature: -1 - random.below(3) } }),
    ],
  ];
}

const wide = () => TensorData.from(new BigInt64Array(2 * 4000).fill(1n), { shape: [2, 4000] });
