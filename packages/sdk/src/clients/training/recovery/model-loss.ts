/**
 * Whether an error says that the server no longer has a model: it is corrupted, it was evicted, or its session has ended. Servers say
 * this in their own words; what is not clear from an error is asked of the server.
 */
import type { TrainingRun } from "@tinklet/wire/client";
import { APIStatusError, FutureExpiredError, RequestFailedError, TinkerError } from "@tinklet/wire/errors";

/** Why a model cannot be trained any more. */
export type ModelLoss = "corrupted" | "evicted" | "session_ended";

/** The server's record of a model says that it is lost. */
export class ModelLostError extends TinkerError {
  override readonly name = "ModelLostError";
  readonly reason: ModelLoss;
  constructor(modelId: string, reason: ModelLoss) {
    super(`The server reports the model ${modelId} as ${reason.replace("_", " ")}.`, {
      code: "model_lost",
      hint: "Create a new model from its last checkpoint, or use the option `recovery`.",
    });
    this.reason = reason;
  }
}

const phrases: readonly (readonly [ModelLoss, RegExp])[] = [
  ["corrupted", /\b(model|adapter|run)\b[^.]*\bcorrupt|\bcorrupt(ed)? (model|adapter|run)\b/i],
  ["session_ended", /\bsession\b[^.]*\b(ended|finished|expired|closed)\b|\b(no|unknown) session\b/i],
  ["evicted", /\b(evicted|unloaded)\b|\b(no|unknown) (model|sampler)\b|\bmodel\b[^.]*\bnot found\b/i],
];

/** A message without what callers choose: a checkpoint may be named "corrupt-session". */
const ownWords = (message: string): string => message.replace(/tinker:\/\/\S+|"[^"]*"/g, "…");

/** Why the model of a failed call is lost, as far as the error says so; `undefined` if it does not. */
export function modelLossOf(error: unknown): ModelLoss | undefined {
  if (error instanceof ModelLostError) return error.reason;
  const isGone = error instanceof APIStatusError && (error.status === 404 || error.status === 410);
  if (!isGone && !(error instanceof RequestFailedError)) return undefined;
  const said = ownWords(error.message);
  return phrases.find(([, phrase]) => phrase.test(said))?.[0];
}

/**
 * Why the model of a failed call is lost, from the error or, where it may mean a loss, from the server's record.
 *
 * @param ask - fetches the record of the model
 */
export async function diagnosed(
  error: unknown,
  ask: () => PromiseLike<Pick<TrainingRun, "corrupted">>,
): Promise<ModelLoss | undefined> {
  const said = modelLossOf(error);
  if (said !== undefined) return said;
  const isGone = error instanceof APIStatusError && (error.status === 404 || error.status === 410);
  const isMissing = isGone || error instanceof FutureExpiredError;
  if (!isMissing && !(error instanceof RequestFailedError && error.retryable)) return undefined;
  try {
    return (await ask()).corrupted ? "corrupted" : undefined;
  } catch (unknown) {
    return isMissing && unknown instanceof APIStatusError && unknown.status === 404 ? "evicted" : undefined;
  }
}
