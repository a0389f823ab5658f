/** Answers before and after a run, for its result: to held-out examples, else to examples of the training data. */
import type { AnswerPair, PreparedData } from "@tinklet/cookbook";
import type { SamplingClient, ServiceClient, Tokenizer } from "@tinklet/sdk";
import type { Context } from "../context.ts";

/** What the answers are sampled with. */
export interface Asked {
  readonly data: Pick<PreparedData, "examples" | "test">;
  readonly service: ServiceClient;
  readonly tokenizer: Tokenizer;
  /** Base model. */
  readonly model: string;
  /** Training checkpoint that the run began with. */
  readonly start: string | undefined;
  readonly contextLength: number | undefined;
}

/** @param path - the trained weights. @returns nothing if they cannot be sampled: the run itself is complete */
export async function answersOf(path: string, asked: Asked, { output, signal }: Context): Promise<AnswerPair[]> {
  const { data, service, tokenizer, model, start, contextLength } = asked;
  const examples = data.examples.test.length === 0 ? data.examples.train : data.examples.test;
  const { compareAnswers, shownAnswers } = await import("@tinklet/cookbook");
  output.progress("Sampling answers …");
  try {
    const before = await startingModel(service, model, start, signal);
    const after = await service.createSamplingClient({ modelPath: path, signal });
    const some = examples.slice(0, 4 * shownAnswers); // plain texts among them ask nothing
    return await compareAnswers(some, { before, after, tokenizer, contextLength, signal });
  } catch (cause) {
    signal.throwIfAborted();
    output.note(`Answers could not be sampled: ${cause instanceof Error ? cause.message : String(cause)}`);
    return [];
  } finally {
    output.endProgress();
  }
}

/** The weights before the run. A training checkpoint cannot be sampled; its sampler weights have the same name. */
async function startingModel(
  service: ServiceClient,
  model: string,
  start: string | undefined,
  signal: AbortSignal,
): Promise<SamplingClient | undefined> {
  if (start === undefined) return service.createSamplingClient({ baseModel: model, signal });
  const modelPath = start.replace("/weights/", "/sampler_weights/");
  return service.createSamplingClient({ modelPath, signal }).catch(() => undefined);
}
