/**
 * Runs the requests of one model: wait in the queue, submit under a sequence number, poll the result. `TrainingClient` defines the
 * requests; this class orders them. A call enters the queue synchronously, so no method awaits anything before that.
 */

import {
  AdamParams,
  type AdamParamsInput,
  type DimuonParamsInput,
  type ForwardBackwardOutput,
  type FutureResult,
  type FutureResultName,
  isKnown,
  loadRoute,
  type Operation,
  type OptimizerConfig,
  type OptimParamsBase,
  type RequestOf,
} from "@tinklet/wire/client";
import type { FutureState } from "../../futures/api-future.ts";
import { pollFuture } from "../../futures/poll.ts";
import type { FailureFacts } from "../../transport/hints.ts";
import type { Session } from "../session/session.ts";
import { fillGap, type Pass, passResult, passSubmission, preparePass } from "./pass.ts";
import { numbered, SubmissionQueue, type SubmitSlot } from "./submission-queue.ts";
import { type Accepted, type SubmitOptions, submitRequest } from "./submit-request.ts";

/** Settings of an optimizer step: AdamW's, or those of another optimizer with its `type`. */
export type OptimSettings = AdamParamsInput | DimuonParamsInput | OptimParamsBase;

/** Operations that are one request under one number. */
export type NumberedOperation = "saveWeights" | "saveWeightsForSampler" | "saveWeightsExternal" | "loadWeights";
export type NumberedRequest<O extends NumberedOperation> = Omit<RequestOf<O>, "modelId" | "seqId">;

export class ModelRequests {
  readonly session: Session;
  readonly modelId: string;
  readonly #queue: SubmissionQueue;

  constructor(session: Session, modelId: string) {
    this.session = session;
    this.modelId = modelId;
    this.#queue = new SubmissionQueue((seqId) => fillGap(this, seqId));
  }

  /** A pass from submission to result. */
  async pass(pass: Pass, state: FutureState, signal: AbortSignal): Promise<ForwardBackwardOutput> {
    const prepared = preparePass(this, pass);
    const accepted = await this.#queue.submit(passSubmission(prepared, state), signal);
    return passResult(prepared, accepted, state, signal);
  }

  /** Runs `submit` when the queue reaches this call. */
  inOrder<T>(state: FutureState, signal: AbortSignal, submit: (slot: SubmitSlot) => Promise<T>): Promise<T> {
    return this.#queue.submit((slot) => {
      state.phase = "submitting";
      return submit(slot);
    }, signal);
  }

  /** One numbered request from submission to result. */
  async run<K extends FutureResultName, O extends NumberedOperation>(
    requestType: K,
    operation: O,
    request: NumberedRequest<O>,
    state: FutureState,
    signal: AbortSignal,
    facts: Partial<FailureFacts> = {},
  ): Promise<FutureResult<K>> {
    const { modelId } = this;
    const accepted = await this.inOrder(state, signal, (slot) =>
      numbered(slot, (seqId) => this.submit(operation, { modelId, seqId, ...request } as RequestOf<O>, { facts })),
    );
    state.submitted([accepted.requestId]);
    return this.poll(requestType, accepted, state, signal, facts);
  }

  /** Validates AdamW's settings synchronously, other optimizers' when submitted. The returned function sends the step. */
  optimStep(settings: OptimSettings): (slot: SubmitSlot) => Promise<Accepted> {
    const { modelId } = this;
    if ("type" in settings) {
      const params = { ...settings };
      return async (slot) => {
        const { encodeOptimParams } = await import("@tinklet/wire/optimizer"); // imported for optimizers other than AdamW
        const optimizerParams = encodeOptimParams(params);
        return numbered(slot, (seqId) => this.submit("optimStep", { optimizerParams, modelId, seqId }));
      };
    }
    const adamParams = settings;
    // Encoding and decoding validates the settings and applies defaults.
    const params = AdamParams.decode(AdamParams.encode(adamParams));
    return (slot) => numbered(slot, (seqId) => this.submit("optimStep", { adamParams: params, modelId, seqId }));
  }

  /** Encodes and sends one request. */
  async submit<O extends Operation>(
    operation: O,
    request: RequestOf<O>,
    options: SubmitOptions = {},
  ): Promise<Accepted> {
    if (!isKnown(operation)) await loadRoute(operation);
    return submitRequest(this.session, this.session.transport.prepare(operation, request), options);
  }

  poll<K extends FutureResultName>(
    requestType: K,
    { requestId, roundtripMs }: Accepted,
    progress: FutureState,
    signal: AbortSignal,
    facts: Partial<FailureFacts> = {},
  ): Promise<FutureResult<K>> {
    const subject = this.modelId;
    return pollFuture(this.session.poll, { requestId, requestType, subject, roundtripMs, signal, facts, progress });
  }
}

/** AdamW is the default and is not sent, because servers older than 0.30 do not know the field. */
export const otherOptimizer = (optimizer: OptimizerConfig | undefined) =>
  optimizer === undefined || optimizer.type === "adamw" ? undefined : { ...optimizer };
