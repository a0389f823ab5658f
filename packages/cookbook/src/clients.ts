/**
 * The parts of the SDK's clients that the loops call, as interfaces: `TrainingClient` and `SamplingClient` fit, and so do the
 * fakes of tests. Results are only awaited, so a promise fits where the SDK returns a future.
 */
import type {
  AdamParamsInput,
  CustomLossFn,
  Datum,
  ForwardBackwardOutput,
  LossFnConfig,
  LossFnType,
  ModelInput,
  SampleResponse,
  SamplingParamsInput,
} from "@tinklet/sdk";

/** Result of one training step. */
export interface TrainedStep {
  readonly loss: number | undefined;
  /** Metrics of the pass and of the optimizer, by the server's names. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly output: ForwardBackwardOutput;
}

/** Samples from fixed weights. */
export interface Sampler {
  sample(
    prompt: ModelInput,
    options: {
      readonly numSamples?: number;
      readonly samplingParams?: SamplingParamsInput;
      /** Asked of the teachers of `teacherTargets`, as the next one. */
      readonly includePromptLogprobs?: boolean;
      readonly topkPromptLogprobs?: number;
      readonly signal?: AbortSignal;
    },
  ): PromiseLike<SampleResponse>;
}

/** Computes the log-probs of given tokens under fixed weights. */
export interface Scorer {
  /** The log-probability of each token after those before it; the first has none. */
  computeLogprobs(
    prompt: ModelInput,
    options?: { readonly signal?: AbortSignal },
  ): PromiseLike<readonly (number | null)[]>;
}

/** Trains one model; calls take effect in the order in which they are made. */
export interface Trainer {
  /** Id of the model, with which the server is asked whether it is corrupted. */
  readonly modelId?: string;
  step(
    data: readonly Datum[],
    lossFn: LossFnType,
    adamParams?: AdamParamsInput,
    options?: { readonly lossFnConfig?: LossFnConfig | undefined },
  ): PromiseLike<TrainedStep>;
  forward(data: readonly Datum[], lossFn: LossFnType): PromiseLike<ForwardBackwardOutput>;
  saveState(
    name: string,
    options?: { readonly ttlSeconds?: number | undefined },
  ): PromiseLike<{ readonly path: string }>;
  saveWeightsForSampler(
    name: string,
    options?: { readonly ttlSeconds?: number | undefined },
  ): PromiseLike<{ readonly path: string }>;
  saveWeightsAndGetSamplingClient(): PromiseLike<Sampler & Partial<Scorer>>;
  /** A pass whose gradients add to those that are there; needed for `microBatches`. */
  forwardBackward?(
    data: readonly Datum[],
    lossFn: LossFnType,
    options?: { readonly lossFnConfig?: LossFnConfig | undefined },
  ): PromiseLike<ForwardBackwardOutput>;
  /** A pass with a custom loss; needed by preference learning. */
  forwardBackwardCustom?(data: readonly Datum[], lossFn: CustomLossFn): PromiseLike<ForwardBackwardOutput>;
  /** Needed by preference learning and for `microBatches`. */
  optimStep?(adamParams?: AdamParamsInput): PromiseLike<{ readonly metrics?: Readonly<Record<string, number>> }>;
}

interface FromStateOptions {
  /** Stored with the new model: the name of its run. */
  readonly userMetadata?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Makes trainers; the SDK's `ServiceClient` fits. */
export interface Service {
  createLoraTrainingClient(options: {
    readonly baseModel: string;
    readonly rank?: number;
    readonly seed?: number;
    readonly userMetadata?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal;
  }): PromiseLike<Trainer>;
  /** With the weights of a checkpoint and a new optimizer. */
  createTrainingClientFromState(path: string, options?: FromStateOptions): PromiseLike<Trainer>;
  /** With the weights and the optimizer of a checkpoint: training resumes exactly. */
  createTrainingClientFromStateWithOptimizer(path: string, options?: FromStateOptions): PromiseLike<Trainer>;
  /** Used to find the checkpoints that remain when the last one of a run is gone, and to ask whether a model is corrupted. */
  createRestClient?(): {
    getWeightsInfoByTinkerPath(path: string): PromiseLike<unknown>;
    getTrainingRun?(trainingRunId: string): Promise<{ readonly corrupted: boolean }>;
    /** Used to delete weights that are no longer the best of a run. */
    deleteCheckpointFromTinkerPath?(path: string): PromiseLike<unknown>;
  };
}
