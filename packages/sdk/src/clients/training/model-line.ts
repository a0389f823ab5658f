/**
 * The line of models that a server refuses because too many are being trained: one attempt at a time, first come, first served, until a model
 * is created or the call ends. Loaded when the creation of a model fails.
 */
import { entropy } from "@tinklet/wire/entropy";
import { APIStatusError, RequestFailedError } from "@tinklet/wire/errors";
import type { FutureState } from "../../futures/api-future.ts";
import { Semaphore } from "../../transport/byte-budget.ts";
import type { Session } from "../session/session.ts";

const firstDelayMs = 5_000;
const longestDelayMs = 60_000;

const phrase =
  /\b(too many|concurrent|simultaneous)\b[^.]*\b(models?|training (clients?|runs?|sessions?)|trainers?)\b|\blimit of \d+ (concurrent )?(models?|training)/i;

/** Whether the server refuses a model because of the number of those that exist. */
export function isModelLimit(error: unknown): boolean {
  if (error instanceof APIStatusError) return [403, 409, 429].includes(error.status) && phrase.test(error.message);
  return error instanceof RequestFailedError && phrase.test(error.message);
}

interface ModelLine {
  readonly places: Semaphore;
  /** The last refusal, which is the reason that calls wait. */
  refusal: unknown;
}

/** The session's line. */
const lines = new WeakMap<Session, ModelLine>();

/** The last refusal, if calls of the session wait: a new call waits behind them, because it would take the room they wait for. */
export function refusalOfLine(session: Session): unknown {
  const line = lines.get(session);
  return line === undefined || line.places.held === 0 ? undefined : line.refusal;
}

/**
 * Waits for room and creates the model.
 *
 * @param refusal - the error of the first attempt, which is rethrown if it has another reason; or {@link refusalOfLine}
 */
export async function inModelLine<T>(
  session: Session,
  refusal: unknown,
  { state, signal, subject }: { readonly state: FutureState; readonly signal: AbortSignal; readonly subject: string },
  attempt: () => Promise<T>,
): Promise<T> {
  if (!isModelLimit(refusal) || signal.aborted) throw refusal;
  const line = lines.get(session) ?? { places: new Semaphore(1), refusal };
  lines.set(session, line);
  const say = (error: unknown) => {
    line.refusal = error;
    state.phase = "waiting";
    state.queueState = "paused_rate_limit";
    state.reason = `waiting for room: ${(error as Error).message}`;
    const { requestType, queueState, reason } = state;
    session.reporter.report({ type: "future.paused", requestId: "", requestType, subject, queueState, reason });
  };
  say(refusal);
  const release = await line.places.acquire(signal);
  try {
    for (let delayMs = firstDelayMs; ; delayMs = Math.min(2 * delayMs, longestDelayMs)) {
      await session.transport.sleep(delayMs * (0.75 + entropy.fraction() / 2), signal);
      try {
        return await attempt();
      } catch (error) {
        if (!isModelLimit(error)) throw error;
        say(error);
      }
    }
  } finally {
    state.reason = undefined;
    state.queueState = undefined;
    release();
  }
}
