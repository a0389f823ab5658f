/**
 * A pass over a batch from the call to its result: validated, chunked and encoded synchronously in the call, then submitted in order,
 * polled and combined.
 */

import {
  Datum,
  type DatumLike,
  encodeUnnumberedPass,
  type ForwardBackwardOutput,
  type LossFnConfig,
  toData,
} from "@tinklet/wire/client";
import { omitUndefined } from "@tinklet/wire/options";
import type { FutureState } from "../../futures/api-future.ts";
import { pollFuture } from "../../futures/poll.ts";
import type { Session } from "../session/session.ts";
import { chunkData, type DataChunk, estimateDatumBytes } from "./batching.ts";
import { type ChunkSender, submitChunks } from "./chunk-submission.ts";
import { combineOutputs } from "./combine-metrics.ts";
import { checkBatch } from "./loss-inputs.ts";
import { isRefusal, type SubmitSlot } from "./submission-queue.ts";
import { type Accepted, submitRequest } from "./submit-request.ts";

/** The model of a pass. */
export interface PassModel {
  readonly session: Session;
  readonly modelId: string;
}

/** One pass over a batch. */
export interface Pass {
  readonly data: readonly DatumLike[];
  readonly lossFn: string;
  readonly lossFnConfig?: LossFnConfig | undefined;
  readonly forwardOnly: boolean;
  readonly allowUnknownLoss?: boolean | undefined;
}

/** An encoded chunk, without its sequence number. */
interface EncodedChunk extends DataChunk {
  readonly encoded: (seqId: number) => Uint8Array;
}

/** A validated and encoded pass. Later changes to the caller's arrays do not affect it. */
export interface PreparedPass {
  readonly model: PassModel;
  readonly lossFn: string;
  readonly forwardOnly: boolean;
  readonly chunks: readonly EncodedChunk[];
  /** Input tokens of the batch. */
  readonly tokens: number;
}

/** Retries of filling a gap within a batch; few, because the caller is waiting for the batch's error. */
const fillerRetries = 2;

/** @throws {@link InvalidInputError} naming the field. */
export function preparePass(model: PassModel, pass: Pass): PreparedPass {
  const { session, modelId } = model;
  const { lossFn, lossFnConfig, forwardOnly } = pass;
  const data = toData(pass.data);
  checkBatch(data, lossFn, pass);
  session.offPolicyWarning.trainsOnSamples(lossFn);
  const chunks = chunkData(data, session.config).map((chunk) => {
    const forwardBackwardInput = { data: chunk.data, lossFn, ...omitUndefined({ lossFnConfig }) };
    return { ...chunk, encoded: encodeUnnumberedPass({ forwardBackwardInput, modelId, forwardOnly }) };
  });
  const tokens = data.reduce((sum, { modelInput }) => sum + modelInput.tokenCount, 0);
  return { model, lossFn, forwardOnly, chunks, tokens };
}

/** Submits a prepared pass once the queue reaches it. */
export function passSubmission(pass: PreparedPass, state: FutureState): (slot: SubmitSlot) => Promise<Accepted[]> {
  const { parallelFwdbwdChunks: parallel } = pass.model.session.config;
  return async (slot) => {
    state.phase = "submitting";
    const accepted = await submitChunks(slot, pass.chunks, chunkSender(pass), { parallel });
    state.submitted(accepted.map(({ requestId }) => requestId));
    return accepted;
  };
}

/** Waits for the results of a submitted pass and combines them. */
export async function passResult(
  { model, forwardOnly }: PreparedPass,
  accepted: readonly Accepted[],
  progress: FutureState,
  signal: AbortSignal,
): Promise<ForwardBackwardOutput> {
  const { session, modelId: subject } = model;
  const requestType = forwardOnly ? "Forward" : "ForwardBackward";
  const outputs = await together(signal, (inner) =>
    accepted.map((chunk) => pollFuture(session.poll, { ...chunk, requestType, subject, signal: inner, progress })),
  );
  return combineOutputs(outputs, { onProblem: (problem) => session.reporter.log("warn", problem) });
}

function chunkSender({ model, lossFn }: PreparedPass): ChunkSender<EncodedChunk> {
  const { session, modelId } = model;
  return {
    send: (chunk, seqId) => sendBytes(model, chunk.bytes, chunk.encoded(seqId)),
    fill: async (datum, seqId) => {
      const request = { forwardBackwardInput: { data: [datum], lossFn }, modelId, forwardOnly: true };
      await sendBytes(model, estimateDatumBytes(datum), encodeUnnumberedPass(request)(seqId), fillerRetries);
    },
    gap: (seqId, error) =>
      session.reporter.log(
        "warn",
        `${modelId}: the server did not accept request number ${seqId} (${(error as Error).message}); the next call uses it up first.`,
      ),
  };
}

/** One token with weight 0. Every vocabulary has a token 0. */
const nothing = new Datum({ modelInput: [0], lossFnInputs: { target_tokens: [0], weights: [0] } });

/**
 * Uses up a number that the server may not have received, with a forward pass over one token, which changes nothing. A server that
 * already has the number refuses the request, which also closes the gap.
 *
 * @throws the error of the last attempt if it is still unknown whether the server has the number.
 */
export async function fillGap(model: PassModel, seqId: number): Promise<void> {
  const forwardBackwardInput = { data: [nothing], lossFn: "cross_entropy" };
  const encoded = encodeUnnumberedPass({ forwardBackwardInput, modelId: model.modelId, forwardOnly: true });
  try {
    await sendBytes(model, estimateDatumBytes(nothing), encoded(seqId));
  } catch (error) {
    if (!isRefusal(error)) throw error;
  }
}

async function sendBytes(
  { session }: PassModel,
  bytes: number,
  body: Uint8Array,
  maxRetries?: number,
): Promise<Accepted> {
  const reserved = session.trainBytes.acquire(bytes);
  const release = typeof reserved === "function" ? reserved : await reserved;
  try {
    const options = omitUndefined({ maxRetries });
    return await submitRequest(session, session.transport.prepareBytes("forwardBackward", body), options);
  } finally {
    release();
  }
}

/** Waits for all; when one fails, the others stop polling, because their results are not used. */
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
