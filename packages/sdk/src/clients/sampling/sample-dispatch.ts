/**
 * One sample from the call to its result: acquires a slot, submits, waits after 429s, polls, and retries. Only this loop retries
 * sampling; the transport sends each attempt once.
 */
import type { Shared } from "@tinklet/wire/abort";
import type { SampleRequest, SampleResponse, UntypedAPIFuture } from "@tinklet/wire/client";
import { entropy } from "@tinklet/wire/entropy";
import {
  APIConnectionError,
  type APIStatusError,
  FutureExpiredError,
  isRetryable,
  RequestFailedError,
} from "@tinklet/wire/errors";
import type { FutureState } from "../../futures/api-future.ts";
import { pollFuture } from "../../futures/poll.ts";
import { billingRetryMs } from "../../transport/billing-pause.ts";
import type { Release, Semaphore } from "../../transport/byte-budget.ts";
import type { FailureFacts } from "../../transport/hints.ts";
import { unsupported } from "../../transport/load-hints.ts";
import { seconds } from "../../transport/report.ts";
import type { PreparedRequest } from "../../transport/transport.ts";
import type { Completed, FuturesPoller } from "../session/futures-poller.ts";
import type { Session } from "../session/session.ts";
import { type FullRetryConfig, sampleDelayMs } from "./retry-config.ts";

/** State shared by all calls of one sampling client. */
export interface SamplerState {
  readonly session: Session;
  readonly config: FullRetryConfig;
  /** The client's own limit (`maxConnections`), if it is below the service's. */
  readonly own: Semaphore | undefined;
  readonly samplingSessionId: string;
  /** Number of this client within the sampling session; its sequence ids start at this number times 1e9. Absent until it has joined. */
  client: number | undefined;
  /** Number of sequence ids used so far. */
  numbered: number;
  /** Requests the client's number from the server, once for all waiting calls. */
  readonly joining: Shared<number>;
  /** The shared poll for all samples, if the server supports it. */
  poller: Promise<FuturesPoller> | undefined;
  /** Time of the last successful sample, or of the first call, on the monotonic clock. */
  lastProgressMs: number;
  /** The samples in progress. */
  readonly underWay: Set<FutureState>;
  /** Stops the stuck detection. */
  stopWatch: (() => void) | undefined;
}

export interface SampleJob {
  readonly request: Omit<SampleRequest, "seqId" | "type">;
  readonly promptBytes: number;
  readonly subject: string;
  readonly facts: Partial<FailureFacts>;
  readonly headers: Readonly<Record<string, string>>;
}

/** Runs a job to its result. */
export async function runSample(
  sampler: SamplerState,
  job: SampleJob,
  state: FutureState,
  signal: AbortSignal,
): Promise<SampleResponse> {
  const { session } = sampler;
  const { clock } = session;
  const { shared } = session.sampling;
  if (shared !== undefined) state.reason = "waiting for a slot of the limit that the processes of this machine share";
  const release = await enter([sampler.own, session.sampling.concurrent, shared], signal);
  state.reason = undefined;
  watch(sampler, state);
  const startedAtMs = clock.monotonic();
  try {
    sampler.client ??= await sampler.joining.get({ signal });
    let submission = await newSubmission(sampler);
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await sampleOnce(sampler, job, submission, { state, signal, startedAtMs });
        sampler.lastProgressMs = clock.monotonic();
        return result;
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        state.lastError = error as Error;
        if (!mayTryAgain(sampler, error)) throw error;
        // The server no longer has the request, so its number is used up. After any other failure the same number is sent again; after
        // an acknowledgement only the result is requested again, so that a prompt is never sampled twice.
        if (error instanceof FutureExpiredError) submission = await newSubmission(sampler);
        const delayMs = sampleDelayMs(sampler.config, attempt, entropy.fraction());
        session.reporter.report({
          type: "request.retry",
          operation: "asample",
          attempt,
          delayMs,
          reason: (error as Error).message,
        });
        await session.transport.sleep(delayMs, signal);
      }
    }
  } finally {
    sampler.underWay.delete(state);
    if (sampler.underWay.size === 0) sampler.stopWatch?.();
    release();
  }
}

/** Size of a client's range of sequence ids. */
const numbersEach = 1_000_000_000n;

/** The next sequence id of a client; a `bigint`, because ids beyond 2^53 are not exact in a double. */
function nextSeqId(sampler: SamplerState): number | bigint {
  const seqId = numbersEach * BigInt(sampler.client ?? 0) + BigInt(sampler.numbered++);
  return seqId <= Number.MAX_SAFE_INTEGER ? Number(seqId) : seqId;
}

/** One numbered request and its progress. Retries reuse it and repeat only the missing steps. */
interface Submission {
  readonly seqId: number | bigint;
  /** Number of completions that the poller had dropped before this request was first sent. */
  readonly dropped: number;
  acknowledged?: UntypedAPIFuture;
  /** Set when the result is ready. Kept, because a completion is reported only once. */
  completed?: Completed;
}

async function newSubmission(sampler: SamplerState): Promise<Submission> {
  return { seqId: nextSeqId(sampler), dropped: (await sampler.poller)?.dropped ?? 0 };
}

/**
 * Stuck detection: fails all samples of a client when none has succeeded for `progressTimeoutMs`, independent of what each waits for
 * (a pause after 429, a 402, 503s, or a result that is always "try again"). All samples share one timer.
 */
function watch(sampler: SamplerState, state: FutureState): void {
  const { config, session } = sampler;
  const { clock } = session;
  sampler.underWay.add(state);
  if (sampler.underWay.size > 1) return;
  sampler.lastProgressMs = clock.monotonic();
  if (!config.enableStuckDetection || !session.config.sampleEnableStuckDetection) return;
  const check = () => {
    const leftMs = sampler.lastProgressMs + config.progressTimeoutMs - clock.monotonic();
    if (leftMs > 0) {
      sampler.stopWatch = session.background.timer(leftMs, check);
      return;
    }
    for (const each of [...sampler.underWay]) each.giveUp?.(stuck(sampler, each.lastError));
  };
  sampler.stopWatch = session.background.timer(config.progressTimeoutMs, check);
}

function stuck({ config, session, lastProgressMs }: SamplerState, cause: unknown): APIConnectionError {
  const quietMs = session.clock.monotonic() - lastProgressMs;
  const why = cause instanceof Error ? `: ${cause.message}` : "";
  return new APIConnectionError(`No sample has succeeded for ${seconds(quietMs)}${why}`, {
    code: "stuck",
    hint: `Check the service's status and the queue state, or raise retryConfig.progressTimeoutMs (${config.progressTimeoutMs}).`,
    cause,
  });
}

/** Acquires a slot of every semaphore, or of none if aborted. */
async function enter(
  lines: readonly (Pick<Semaphore, "acquire"> | undefined)[],
  signal: AbortSignal,
): Promise<Release> {
  const held: Release[] = [];
  const release = () => {
    for (const give of held) give();
  };
  try {
    for (const line of lines) {
      const place = line?.acquire(signal);
      if (place !== undefined) held.push(typeof place === "function" ? place : await place);
    }
    return release;
  } catch (error) {
    release();
    throw error;
  }
}

function mayTryAgain({ config, session }: SamplerState, error: unknown): boolean {
  return config.enableRetryLogic && !session.config.sampleNoRetries && isRetryable(error);
}

async function sampleOnce(
  sampler: SamplerState,
  job: SampleJob,
  submission: Submission,
  context: { state: FutureState; signal: AbortSignal; startedAtMs: number },
): Promise<SampleResponse> {
  const { session } = sampler;
  const { state, signal } = context;
  if (submission.acknowledged === undefined) {
    state.phase = "submitting";
    const release = await session.sampling.enter(job.promptBytes, signal);
    try {
      submission.acknowledged = await submit(session, job, submission.seqId, context);
    } finally {
      release();
    }
    state.lastError = undefined;
    state.submitted([submission.acknowledged.requestId]);
  }
  const { requestId, sampleSequenceIds } = submission.acknowledged;
  try {
    const poller = await pollerOf(sampler);
    submission.completed ??= (await poller?.waitFor(requestId, { signal, dropped: submission.dropped })) ?? {};
    const { payloadBytes } = submission.completed;
    const target = { requestId, requestType: "Sample", subject: job.subject, signal, facts: job.facts } as const;
    const over = () => poller?.fetched(requestId); // failures are final, like results
    const response = await pollFuture(session.poll, { ...target, progress: state, payloadBytes }).catch((error) => {
      if (error instanceof RequestFailedError) over();
      throw error;
    });
    over();
    return response.withSequenceIds(sampleSequenceIds);
  } catch (error) {
    if (signal.aborted) session.abandon(requestId);
    throw error;
  }
}

function pollerOf(sampler: SamplerState): Promise<FuturesPoller> | undefined {
  const { session, samplingSessionId, client = 0 } = sampler;
  if (!session.config.sampleUseRetrieveFutures) return undefined;
  sampler.poller ??= import("../session/futures-poller.ts").then(
    (m) => new m.FuturesPoller(session, samplingSessionId, client),
  );
  return sampler.poller;
}

/** Sends until the server has acknowledged the request; waits after 429 and 402 and sends the same number again. */
async function submit(
  session: Session,
  job: SampleJob,
  seqId: number | bigint,
  { state, signal, startedAtMs }: { state: FutureState; signal: AbortSignal; startedAtMs: number },
): Promise<UntypedAPIFuture> {
  const { transport, sampling } = session;
  for (;;) {
    while (sampling.pausedForMs > 0) await transport.sleep(sampling.pausedForMs, signal);
    // Each attempt has a new idempotency key, as in the contract: the sequence id identifies the request.
    const request: PreparedRequest = transport.prepare("asample", { ...job.request, seqId });
    const response = await transport.attempt(request, {
      signal,
      startedAtMs,
      headers: { "x-tinker-sampling-backpressure": "1", ...job.headers },
    });
    if (response.status < 300) return transport.decode("asample", response);
    const failure: APIStatusError = transport.failure(request, response, job.facts);
    state.lastError = failure;
    if (failure.status === 429) {
      sampling.pause(job.promptBytes);
      continue;
    }
    if (failure.status !== 402 || !transport.billing.met("asample")) throw unsupported(failure, "asample") ?? failure;
    sampling.pause(job.promptBytes);
    await transport.sleep(billingRetryMs, signal);
  }
}
