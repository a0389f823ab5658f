/**
 * `TrainingClient`: passes, optimizer steps and checkpoints of one model, in the order of the calls. Defines requests and results;
 * `model-requests.ts` submits them.
 */

import {
  copyDatum,
  type DatumLike,
  type ForwardBackwardOutput,
  type GetInfoResponse,
  type LoadWeightsResponse,
  type LossFnConfig,
  type LossFnType,
  type OptimStepResponse,
  type SaveWeightsExternalResponse,
  type SaveWeightsForSamplerResponse,
  type SaveWeightsResponse,
  toData,
  type UnloadModelResponse,
} from "@tinklet/wire/client";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import { checkOptions, describe, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import { type APIFuture, FutureState } from "../../futures/api-future.ts";
import { togetherTiming } from "../../futures/server-timing.ts";
import type { Tokenizer } from "../../tokenizer/index.ts";
import type { CallOptions } from "../../transport/transport.ts";
import { modelTokenizer } from "../model-tokenizer.ts";
import { callNames, type OperationOptions, operationNames } from "../options.ts";
import { runUrl } from "../rest/console-urls.ts";
import type { RetryConfig } from "../sampling/retry-config.ts";
import { SamplingClient } from "../sampling/sampling-client.ts";
import {
  type CustomLossFn,
  CustomLossOutput,
  customForwardData,
  customLossCarrier,
} from "./custom-loss/custom-loss.ts";
import { batchLoss, CustomLoss, checkLossInputs } from "./custom-loss/per-datum-loss.ts";
import type { HasInputsFor, PassOutput } from "./loss-inputs.ts";
import type { ModelRequests, OptimSettings } from "./model-requests.ts";
import { passResult, passSubmission, preparePass, together } from "./pass.ts";
import type { CallKind, ModelCall, ModelRecovery } from "./recovery/model-recovery.ts";
import { type StepResult, stepResult } from "./step-result.ts";

/** Options of a forward or forward-backward pass. */
export interface PassOptions extends OperationOptions {
  /** Hyperparameters of the loss, for example `{ clip_low_threshold: 0.8 }`. */
  readonly lossFnConfig?: LossFnConfig | undefined;
}

/** Options that allow a loss that the official service does not have. */
export interface UnknownLoss {
  readonly allowUnknownLoss: true;
}

/** Options of saving checkpoints. */
export interface SaveOptions extends OperationOptions {
  /** Time to live of the checkpoint, in seconds. @defaultValue no expiry */
  readonly ttlSeconds?: number | undefined;
  /** Metadata stored with the checkpoint. Servers older than 0.28 may refuse it. */
  readonly userMetadata?: Readonly<Record<string, string>> | undefined;
}

/** Options of {@link TrainingClient.saveWeightsExternal}. */
export interface ExternalSaveOptions extends OperationOptions {
  /** Time to live of the files, in seconds. @defaultValue no expiry */
  readonly ttlSeconds?: number | undefined;
  /** Public keys of the `age` tool; the files are encrypted for these recipients. */
  readonly ageEncryptionRecipients?: readonly string[] | undefined;
}

/** Options of sampling clients created by a training client. */
export interface SamplerOptions extends OperationOptions {
  readonly retryConfig?: RetryConfig | undefined;
  /** Record the data that the loss `stable_reinforce` needs of each sample. Needs a server of 0.27. @defaultValue false */
  readonly recordStabilityInfo?: boolean | undefined;
}

/** Options of loading checkpoints. */
export interface LoadOptions extends OperationOptions {
  /** Access token for another account's weights. */
  readonly weightsAccessToken?: string | undefined;
}

/** A batch of data with the inputs that the loss requires. */
export type BatchFor<L extends LossFnType, K extends string> = readonly (DatumLike<K> & HasInputsFor<L, K>)[];

/**
 * Trains one model. Created by {@link ServiceClient.createLoraTrainingClient} and `createTrainingClientFromState`.
 *
 * Calls are submitted in the order in which they are made; the caller need not await one before the next. A call that fails, is
 * cancelled or times out does not block later ones.
 *
 * Training, saving and loading return an {@link APIFuture} immediately; await it for the result. `getInfo` and `getTokenizer` return a
 * `Promise`.
 *
 * @example
 * ```ts
 * const trainer = await service.createLoraTrainingClient({ baseModel: "Qwen/Qwen3-8B", rank: 32 });
 * for (const batch of batches) {
 *   const pass = trainer.forwardBackward(batch, "cross_entropy");
 *   const step = trainer.optimStep({ learningRate: 1e-4 });
 *   console.log((await pass).loss);
 *   await step;
 * }
 * ```
 */
export class TrainingClient {
  #requests: ModelRequests;
  readonly #recovery: ModelRecovery | undefined;

  /** @internal */
  constructor(
    requests: ModelRequests,
    recovery?: (requests: ModelRequests, onReplace: (requests: ModelRequests) => void) => ModelRecovery,
  ) {
    this.#requests = requests;
    this.#recovery = recovery?.(requests, (replacement) => {
      this.#requests = replacement;
    });
  }

  /** The model's id, which is also the id of its training run. With the option `recovery`, a recovered model has a new one. */
  get modelId(): string {
    return this.#requests.modelId;
  }

  /**
   * Forward pass without gradients: per-token outputs and metrics.
   *
   * @example
   * ```ts
   * const { metrics } = await trainer.forward(batch, "cross_entropy"); // a held-out loss
   * console.log(metrics["loss:sum"]);
   * ```
   */
  forward<L extends LossFnType, K extends string = string>(
    data: BatchFor<L, K>,
    lossFn: L,
    options?: PassOptions,
  ): APIFuture<PassOutput<L>>;
  /** As above, with a loss that only some servers know. */
  forward(
    data: readonly DatumLike[],
    lossFn: string,
    options: PassOptions & UnknownLoss,
  ): APIFuture<ForwardBackwardOutput>;
  forward(data: readonly DatumLike[], lossFn: string, options: PassOptions = {}): APIFuture<ForwardBackwardOutput> {
    const call = { kind: "read", names: passNames, data } as const;
    return this.#start("Forward", "forward", options, call, (requests, state, signal, batch) =>
      requests.pass({ data: batch, lossFn, ...options, forwardOnly: true }, state, signal),
    );
  }

  /**
   * Forward and backward pass; adds to the accumulated gradients. A large batch is sent in chunks, and the results are combined.
   *
   * @example
   * ```ts
   * const example = {
   *   modelInput: [5, 6, 7],
   *   lossFnInputs: { target_tokens: [6, 7, 8], weights: [0, 1, 1] }, // weight 0: no loss on the prompt
   * };
   * const { loss, outputs } = await trainer.forwardBackward([example], "cross_entropy");
   * for (const { logprobs } of outputs) console.log(loss, logprobs); // logprobs and elementwise_loss are Float32Arrays
   * ```
   *
   * @throws {@link InvalidInputError} (as a rejection) naming the field, before any request, when the batch lacks an input of the loss, a
   * length does not match or a number is not finite.
   */
  forwardBackward<L extends LossFnType, K extends string = string>(
    data: BatchFor<L, K>,
    lossFn: L,
    options?: PassOptions,
  ): APIFuture<PassOutput<L>>;
  /** As above, with a loss that only some servers know. */
  forwardBackward(
    data: readonly DatumLike[],
    lossFn: string,
    options: PassOptions & UnknownLoss,
  ): APIFuture<ForwardBackwardOutput>;
  forwardBackward(
    data: readonly DatumLike[],
    lossFn: string,
    options: PassOptions = {},
  ): APIFuture<ForwardBackwardOutput> {
    const call = { kind: "train", names: passNames, data } as const;
    return this.#start("ForwardBackward", "forward_backward", options, call, (requests, state, signal, batch) =>
      requests.pass({ data: batch, lossFn, ...options, forwardOnly: false }, state, signal),
    );
  }

  /**
   * A pass with a custom loss: a forward pass, `lossFn` on the log-probs, and a second pass with its gradient. The function returns a
   * {@link Var}, whose gradient is computed, or a number with explicit gradients. Later calls wait until the second pass is submitted, so
   * the function must not await calls of the same client. A {@link CustomLoss} can be passed instead of a function; servers that support
   * it need one pass.
   *
   * @throws {@link InvalidInputError} (as a rejection) when the data or the function's result are invalid.
   *
   * @example
   * ```ts
   * await trainer.forwardBackwardCustom(pairs, (_, [chosen, rejected]) => ({
   *   loss: chosen!.sum().sub(rejected!.sum()).mul(0.1).logSigmoid().neg(),
   * }));
   * ```
   */
  forwardBackwardCustom(
    data: readonly DatumLike[],
    lossFn: CustomLossFn | CustomLoss,
    options: OperationOptions & { readonly lossTypeInput?: "logprobs" } = {},
  ): APIFuture<ForwardBackwardOutput> {
    const perDatum = lossFn instanceof CustomLoss ? lossFn : undefined;
    const call = { kind: "train", names: customNames, data } as const;
    return this.#start(
      "ForwardBackward",
      "forward_backward_custom",
      options,
      call,
      async (requests, state, signal, given) => {
        const carrier = { lossFn: customLossCarrier };
        const batch = toData(given);
        if (perDatum !== undefined) checkLossInputs(perDatum, batch);
        if (perDatum?.lossId !== undefined) {
          const lossFnConfig = { loss_id: perDatum.lossId };
          const pass = { data: batch, lossFn: "custom", lossFnConfig, allowUnknownLoss: true, forwardOnly: false };
          return requests.pass(pass, state, signal);
        }
        // Copied for the second pass, because the caller may change its arrays during the first.
        const copies = batch.map(copyDatum);
        const run = lossFn instanceof CustomLoss ? batchLoss(lossFn, copies) : lossFn;
        const forward = preparePass(requests, {
          ...carrier,
          data: customForwardData(copies, options),
          forwardOnly: true,
        });
        const { custom, backward, accepted } = await requests.inOrder(state, signal, async (slot) => {
          const inner = new FutureState("Forward", requests.modelId);
          const output = await passResult(forward, await passSubmission(forward, inner)(slot), inner, signal);
          const { runCustomLoss } = await import("./custom-loss/run-custom-loss.ts");
          const custom = await runCustomLoss(batch, output, run, copies);
          signal.throwIfAborted(); // the forward pass changed no state, so the call can stop here
          const backward = preparePass(requests, { ...carrier, data: custom.data, forwardOnly: false });
          return { custom, backward, accepted: await passSubmission(backward, state)(slot) };
        });
        return new CustomLossOutput(await passResult(backward, accepted, state, signal), custom);
      },
    );
  }

  /**
   * Optimizer step: applies the accumulated gradients and clears them.
   *
   * @param params - settings of AdamW, or of the optimizer that the model was created with, with its `type`
   *
   * @example
   * ```ts
   * await trainer.optimStep({ learningRate: 1e-4, weightDecay: 0.01, gradClipNorm: 1 });
   * ```
   */
  optimStep(params: OptimSettings = {}, options: OperationOptions = {}): APIFuture<OptimStepResponse> {
    const settings = { ...params };
    return this.#start("OptimStep", "optim_step", options, trainCall, async (requests, state, signal) => {
      const accepted = await requests.inOrder(state, signal, requests.optimStep(settings));
      state.submitted([accepted.requestId]);
      return requests.poll("OptimStep", accepted, state, signal);
    });
  }

  /**
   * A forward-backward pass and an optimizer step, both submitted before either is awaited. If the server refuses the pass, the step is
   * not sent.
   *
   * @example
   * ```ts
   * const { loss, gradNorm, tokens, waitMs } = await trainer.step(batch, "cross_entropy", { learningRate: 1e-4 });
   * ```
   */
  step<L extends LossFnType, K extends string = string>(
    data: BatchFor<L, K>,
    lossFn: L,
    params: OptimSettings = {},
    options: PassOptions = {},
  ): APIFuture<StepResult> {
    const { clock } = this.#requests.session;
    const settings = { ...params };
    const call = { kind: "train", names: passNames, data } as const;
    return this.#start("ForwardBackward", "step", options, call, async (requests, state, signal, batch) => {
      const startedAtMs = clock.monotonic();
      const pass = preparePass(requests, { data: batch, lossFn, ...options, forwardOnly: false });
      const optimStep = requests.optimStep(settings);
      const [passed, stepped] = await requests.inOrder(state, signal, async (slot) => {
        const inner = new FutureState("ForwardBackward", requests.modelId);
        return [await passSubmission(pass, inner)(slot), await optimStep(slot)] as const;
      });
      state.submitted([...passed, stepped].map(({ requestId }) => requestId));
      const [output, optimized] = await together<unknown>(signal, (inner) => [
        passResult(pass, passed, state, inner),
        requests.poll("OptimStep", stepped, state, inner),
      ]);
      return stepResult(pass.tokens, output as ForwardBackwardOutput, optimized as OptimStepResponse, {
        waitMs: clock.monotonic() - startedAtMs,
        ...togetherTiming(state.timings),
      });
    });
  }

  /**
   * Saves weights and optimizer state as a checkpoint.
   *
   * @param options.overwrite - whether to overwrite an existing checkpoint of that name
   *
   * @example
   * ```ts
   * const { path } = await trainer.saveState("epoch-1");
   * const again = await service.createTrainingClientFromStateWithOptimizer(path); // resumes from the checkpoint
   * ```
   */
  saveState(
    name: string,
    options: SaveOptions & { readonly overwrite?: boolean | undefined } = {},
  ): APIFuture<SaveWeightsResponse> {
    const { ttlSeconds, overwrite, userMetadata } = options;
    return this.#start(
      "SaveWeights",
      "save_state",
      options,
      saveCall(saveStateNames),
      async (requests, state, signal) => {
        const request = { path: checkedName(name), ...omitUndefined({ ttlSeconds, overwrite, userMetadata }) };
        return requests.run("SaveWeights", "saveWeights", request, state, signal);
      },
    );
  }

  /** Loads weights and resets the optimizer state. @param path - `tinker://<run>/weights/<name>` */
  loadState(path: string, options: LoadOptions = {}): APIFuture<LoadWeightsResponse> {
    return this.#load("load_state", path, false, options);
  }

  /** Loads weights and optimizer state, to resume training exactly. */
  loadStateWithOptimizer(path: string, options: LoadOptions = {}): APIFuture<LoadWeightsResponse> {
    return this.#load("load_state_with_optimizer", path, true, options);
  }

  #load(name: string, path: string, optimizer: boolean, options: LoadOptions): APIFuture<LoadWeightsResponse> {
    const { weightsAccessToken } = options;
    const call = { kind: "train", names: loadNames } as const;
    return this.#start("LoadWeights", name, options, call, async (requests, state, signal) => {
      const request = { path: checkedTinkerPath("path", path), optimizer, ...omitUndefined({ weightsAccessToken }) };
      return requests.run("LoadWeights", "loadWeights", request, state, signal, { path });
    });
  }

  /**
   * Saves weights for sampling under a name; the result's path goes to `createSamplingClient`.
   *
   * @example
   * ```ts
   * const { path } = await trainer.saveWeightsForSampler("final", { ttlSeconds: 7 * 86_400 });
   * const tuned = await service.createSamplingClient({ modelPath: path });
   * ```
   */
  saveWeightsForSampler(name: string, options: SaveOptions = {}): APIFuture<SaveWeightsForSamplerResponse> {
    const { ttlSeconds, userMetadata } = options;
    return this.#start(
      "SaveWeightsForSampler",
      "save_weights_for_sampler",
      options,
      saveCall(saveNames),
      async (requests, state, signal) => {
        const request = { path: checkedName(name), ...omitUndefined({ ttlSeconds, userMetadata }) };
        return savedUnder(await requests.run("SaveWeightsForSampler", "saveWeightsForSampler", request, state, signal));
      },
    );
  }

  /**
   * Saves the weights as files for use in other programs; `RestClient.getExternalWeightsUrls` returns their URLs. Needs a server of 0.28.
   *
   * @example
   * ```ts
   * const { path } = await trainer.saveWeightsExternal("final", { ttlSeconds: 86_400 });
   * const { urls } = await service.createRestClient().getExternalWeightsUrls(path);
   * for (const [file, url] of Object.entries(urls)) console.log(file, url);
   * ```
   */
  saveWeightsExternal(name: string, options: ExternalSaveOptions = {}): APIFuture<SaveWeightsExternalResponse> {
    const { ttlSeconds, ageEncryptionRecipients } = options;
    return this.#start(
      "SaveWeightsExternal",
      "save_weights_external",
      options,
      saveCall(externalNames),
      async (requests, state, signal) => {
        const request = { path: checkedName(name), ...omitUndefined({ ttlSeconds, ageEncryptionRecipients }) };
        return savedUnder(await requests.run("SaveWeightsExternal", "saveWeightsExternal", request, state, signal));
      },
    );
  }

  /**
   * Saves the current weights without a name and returns a client that samples from them.
   *
   * @example
   * ```ts
   * const current = await trainer.saveWeightsAndGetSamplingClient(); // once per round of reinforcement learning
   * const { sequences } = await current.sample(prompt, { numSamples: 8, samplingParams: { maxTokens: 16 } });
   * ```
   */
  saveWeightsAndGetSamplingClient(options: SamplerOptions = {}): APIFuture<SamplingClient> {
    const { session } = this.#requests;
    const name = "save_weights_and_get_sampling_client";
    return this.#start(
      "SaveWeightsForSampler",
      name,
      options,
      saveCall(samplerNames),
      async (requests, state, signal) => {
        const request = { samplingSessionSeqId: session.nextSamplingSessionSeqId() };
        const saved = await requests.run("SaveWeightsForSampler", "saveWeightsForSampler", request, state, signal);
        if (saved.samplingSessionId === undefined) {
          throw new ResponseValidationError("sampling_session_id", "is missing from the response to an unnamed save");
        }
        return new SamplingClient(session, saved.samplingSessionId, options);
      },
    );
  }

  /** Creates a client that samples from a saved checkpoint. @param modelPath - `tinker://<run>/sampler_weights/<name>` */
  createSamplingClient(modelPath: string, options: SamplerOptions = {}): Promise<SamplingClient> {
    return SamplingClient.create(this.#requests.session, "createSamplingClient", { modelPath, ...options });
  }

  /** URL of this training run in the hosted service's console; with a Tinklet server, in the studio. */
  getConsoleUrl(): string {
    return runUrl(this.modelId, this.#requests.session.ownPages);
  }

  /** Information about this model from the server. */
  async getInfo(options: CallOptions = {}): Promise<GetInfoResponse> {
    checkOptions("getInfo", options, callNames);
    const info = await this.#requests.session.call("getInfo", { modelId: this.modelId }, options);
    const { tokenizerId } = info.modelData;
    if (tokenizerId === undefined) return info;
    // The part after a colon is internal to the service.
    return { ...info, modelData: { ...info.modelData, tokenizerId: tokenizerId.split(":", 1)[0]! } };
  }

  /**
   * The model's tokenizer, from the server if it is a Tinklet server, else from the Hugging Face Hub or its cache. Loads
   * `@tinklet/models`.
   */
  async getTokenizer(options: CallOptions = {}): Promise<Tokenizer> {
    const { session } = this.#requests;
    return session.within("getTokenizer", options, async (inner) => {
      const { modelData, modelName } = await this.getInfo(inner);
      const name = modelData.modelName ?? modelName ?? "";
      return modelTokenizer(session, { modelName: name, tokenizerId: modelData.tokenizerId }, inner);
    });
  }

  /** Unloads the model on the server, after all earlier calls. An extension: the Python SDK never sends this request. */
  unload(options: OperationOptions = {}): APIFuture<UnloadModelResponse> {
    const call = { kind: "unload", names: operationNames } as const;
    return this.#start("UnloadModel", "unload_model", options, call, async (requests, state, signal) => {
      const { modelId } = requests;
      const accepted = await requests.inOrder(state, signal, () => requests.submit("unloadModel", { modelId }));
      state.submitted([accepted.requestId]);
      return requests.poll("UnloadModel", accepted, state, signal);
    });
  }

  #start<T>(
    requestType: string,
    operation: string,
    options: OperationOptions,
    { kind, names, data = [] }: Call,
    work: (...on: [...Parameters<ModelCall<T>>, data: readonly DatumLike[]]) => Promise<T>,
  ): APIFuture<T> {
    const { session, modelId } = this.#requests;
    const attributes = { "tinker.model_id": modelId };
    const { signal, timeoutMs, metadata } = options;
    return session.start(
      { requestType, operation, subject: modelId, signal, timeoutMs, metadata, attributes },
      (state, inner) => {
        checkOptions(camelCase(operation), options, names);
        return this.#recovery === undefined
          ? work(this.#requests, state, inner, data)
          : this.#recovery.run({ kind, data, work }, state, inner);
      },
    );
  }
}

/** What a call does to the model, the names of its options, and its batch. */
interface Call {
  readonly kind: CallKind;
  readonly names: Readonly<Record<string, true>>;
  readonly data?: readonly DatumLike[];
}

const trainCall: Call = { kind: "train", names: operationNames };
const saveCall = (names: Call["names"]): Call => ({ kind: "save", names });

const passNames: OptionNames<PassOptions & UnknownLoss> = {
  ...operationNames,
  lossFnConfig: true,
  allowUnknownLoss: true,
};
const customNames = { ...operationNames, lossTypeInput: true } as const;
const saveNames: OptionNames<SaveOptions> = { ...operationNames, ttlSeconds: true, userMetadata: true };
const saveStateNames = { ...saveNames, overwrite: true } as const;
const externalNames: OptionNames<ExternalSaveOptions> = {
  ...operationNames,
  ttlSeconds: true,
  ageEncryptionRecipients: true,
};
const loadNames: OptionNames<LoadOptions> = { ...operationNames, weightsAccessToken: true };
const samplerNames: OptionNames<SamplerOptions> = { ...operationNames, retryConfig: true, recordStabilityInfo: true };

/** `save_state` → `saveState`. */
const camelCase = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

function checkedName(name: string): string {
  if (typeof name === "string" && name !== "") return name;
  throw new InvalidInputError("name", `must be the name of a checkpoint, got ${describe(name)}`);
}

/** The public fields of the response to a named save. */
function savedUnder<T extends string>({ path, type }: { readonly path?: string; readonly type?: T }) {
  if (path === undefined) throw new ResponseValidationError("path", "is missing from the response to a named save");
  return { path, ...omitUndefined({ type }) };
}

/** @throws {@link InvalidInputError} when the value is not a `tinker://` path. */
export function checkedTinkerPath(field: string, path: string): string {
  if (typeof path === "string" && path.startsWith("tinker://")) return path;
  throw new InvalidInputError(field, `must begin with tinker://, got ${describe(path)}`, {
    hint: "Use the path that saveState or saveWeightsForSampler returned.",
  });
}
