/**
 * How the requests of one model run: wait for the turn, submit under a number, poll for the result. `TrainingClient` says
 * what to send; this says how. The place in the queue is always taken in the tick of the call, so no method here awaits
 * anything before it.
 */
import type { FutureState } from "../futures/api-future.ts";
import { pollFuture } from "../futures/poll.ts";
import type { FailureFacts } from "../transport/hints.ts";
import type { FutureResult, FutureResultName, Operation, RequestOf } from "../wire/contract.ts";
import type { Datum } from "../wire/datum.ts";
import { AdamParams, type AdamParamsInput, type ForwardBackwardOutput, type LossFnConfig } from "../wire/training.ts";
import { compressZstd } from "../wire/zstd.ts";
import { chunkData, type DataChunk, estimateDatumBytes } from "./batching.ts";
import { type AcceptedChunk, type ChunkSender, submitChunks } from "./chunk-submission.ts";
import { combineOutputs } from "./combine-metrics.ts";
import { checkBatch } from "./loss-inputs.ts";
import type { Session } from "./session.ts";
import { numbered, SubmissionQueue, type Turn } from "./submission-queue.ts";

/** One pass over a batch. */
export interface Pass {
  readonly data: readonly Datum[];
  readonly lossFn: string;
  readonly lossFnConfig?: LossFnConfig | undefined;
  readonly forwardOnly: boolean;
  readonly allowUnknownLoss?: boolean | undefined;
}

/** A pass that was checked and cut into requests. */
export interface PreparedPass extends Pass {
  readonly chunks: readonly DataChunk[];
}

/** Operations that are one request under one number. */
export type NumberedOperation = "saveWeights" | "saveWeightsForSampler" | "loadWeights";
export type NumberedRequest<O extends NumberedOperation> = Omit<RequestOf<O>, "modelId" | "seqId">;

/** Sending a filler is a repair: it is not worth minutes. */
const fillerRetries = 2;

export class ModelRequests {
  readonly session: Session;
  readonly modelId: string;
  readonly #queue = new SubmissionQueue();

  constructor(session: Session, modelId: string) {
    this.session = session;
    this.modelId = modelId;
  }

  /** Runs `submit` when it is this call's turn. */
  inTurn<T>(state: FutureState, signal: AbortSignal, submit: (turn: Turn) => Promise<T>): Promise<T> {
    return this.#queue.submit((turn) => {
      state.phase = "submitting";
      return submit(turn);
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
    const accepted = await this.inTurn(state, signal, (turn) =>
      numbered(turn, (seqId) => this.submit(operation, { modelId, seqId, ...request } as RequestOf<O>, { facts })),
    );
    state.submitted([accepted.requestId]);
    return this.poll(requestType, accepted, state, signal, facts);
  }

  /** Checks an optimizer step's settings now; sends it when it is called. */
  optimStep(adamParams: AdamParamsInput): (turn: Turn) => Promise<AcceptedChunk> {
    // Read back from its own encoding: checked, and with its defaults filled in.
    const params = AdamParams.decode(AdamParams.encode(adamParams));
    return (turn) =>
      numbered(turn, (seqId) => this.submit("optimStep", { adamParams: params, modelId: this.modelId, seqId }));
  }

  /** Sends one request. Has no signal: a submission whose turn has come is not left half done. */
  async submit<O extends Operation>(
    operation: O,
    request: RequestOf<O>,
    options: { readonly facts?: Partial<FailureFacts>; readonly maxRetries?: number } = {},
  ): Promise<AcceptedChunk> {
    const { transport, clock, config } = this.session;
    const startedAtMs = clock.monotonic();
    let prepared = transport.prepare(operation, request);
    if (operation === "forwardBackward" && config.protoCompressFwdbwd) {
      const headers = { ...prepared.headers, "content-encoding": "zstd" };
      prepared = { ...prepared, headers, body: await compressZstd(prepared.body as Uint8Array) };
    }
    const response = await transport.send(prepared, { ...options, startedAtMs });
    const { requestId } = transport.decode(operation, response) as { readonly requestId: string };
    return { requestId, roundtripMs: clock.monotonic() - startedAtMs };
  }

  poll<K extends FutureResultName>(
    requestType: K,
    { requestId, roundtripMs }: AcceptedChunk,
    progress: FutureState,
    signal: AbortSignal,
    facts: Partial<FailureFacts> = {},
  ): Promise<FutureResult<K>> {
    const subject = this.modelId;
    return pollFuture(this.session.poll, { requestId, requestType, subject, roundtripMs, signal, facts, progress });
  }

  // ---- passes -------------------------------------------------------------------------------------------------------

  /** @throws {@link InvalidInputError} naming the field. */
  prepare(pass: Pass): PreparedPass {
    checkBatch(pass.data, pass.lossFn, pass);
    this.session.notes.trainsOnSamples(pass.lossFn);
    return { ...pass, chunks: chunkData(pass.data, this.session.config) };
  }

  /** A pass from submission to result. */
  async pass(pass: Pass, state: FutureState, signal: AbortSignal): Promise<ForwardBackwardOutput> {
    const prepared = this.prepare(pass);
    const accepted = await this.inTurn(state, signal, (turn) => this.submitPass(turn, prepared));
    state.submitted(accepted.map(({ requestId }) => requestId));
    return this.passResult(prepared, accepted, state, signal);
  }

  submitPass(turn: Turn, pass: PreparedPass): Promise<AcceptedChunk[]> {
    return submitChunks(turn, pass.chunks, this.#sender(pass), { parallel: this.session.config.parallelFwdbwdChunks });
  }

  async passResult(
    { forwardOnly }: Pass,
    accepted: readonly AcceptedChunk[],
    state: FutureState,
    signal: AbortSignal,
  ): Promise<ForwardBackwardOutput> {
    const requestType = forwardOnly ? "Forward" : "ForwardBackward";
    const outputs = await together(signal, (inner) =>
      accepted.map((chunk) => this.poll(requestType, chunk, state, inner)),
    );
    return combineOutputs(outputs, { onProblem: (problem) => this.session.reporter.log("warn", problem) });
  }

  #sender(pass: Pass): ChunkSender {
    const { trainBytes, reporter } = this.session;
    const { lossFn, lossFnConfig } = pass;
    const send = async (
      data: readonly Datum[],
      bytes: number,
      request: { seqId: number; forwardOnly: boolean },
      maxRetries?: number,
    ) => {
      const reserved = trainBytes.acquire(bytes);
      const release = typeof reserved === "function" ? reserved : await reserved;
      try {
        const forwardBackwardInput = { data, lossFn, ...(lossFnConfig === undefined ? {} : { lossFnConfig }) };
        const options = maxRetries === undefined ? {} : { maxRetries };
        return await this.submit(
          "forwardBackward",
          { forwardBackwardInput, modelId: this.modelId, ...request },
          options,
        );
      } finally {
        release();
      }
    };
    return {
      send: (chunk, seqId) => send(chunk.data, chunk.bytes, { seqId, forwardOnly: pass.forwardOnly }),
      fill: async (datum, seqId) => {
        await send([datum], estimateDatumBytes(datum), { seqId, forwardOnly: true }, fillerRetries);
      },
      gap: (seqId, error) =>
        reporter.log(
          "warn",
          `${this.modelId}: request number ${seqId} was not taken by the server (${(error as Error).message}); the server may wait for it before it goes on.`,
        ),
    };
  }
}

/** Waits for all; when one fails the others stop polling, for nobody will read them. */
export async function together<T>(
  signal: AbortSignal,
  start: (inner: AbortSignal) => readonly Promise<T>[],
): Promise<T[]> {
  const stop = new AbortController();
  try {
    return await Promise.all(start(AbortSignal.any([signal, stop.signal])));
  } catch (error) {
    stop.abort(error);
    throw error;
  }
}
