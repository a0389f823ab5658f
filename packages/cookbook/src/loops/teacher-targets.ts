/**
 * Off-policy distillation: the student learns the teacher's top-k tokens at each position with their probabilities, instead of the
 * text's own token. The texts do not change, so the teacher scores each once.
 */
import { createHash } from "node:crypto";
import { Datum, InvalidInputError, ModelInput, TensorData } from "@tinklet/sdk";
import { checkOptions, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import type { Sampler } from "../clients.ts";
import type { PreparedData } from "../data/prepare.ts";
import type { SupervisedDatum } from "../data/render.ts";
import { EpisodeLimit } from "../environments/episode-limit.ts";

/** Data that `runSupervised` takes. */
export type DistillationData = Pick<PreparedData, "train" | "test" | "digest">;

/** Texts and the teacher that scores them. */
export interface TaughtData {
  readonly data: DistillationData;
  /** Must have the student's tokens, and give the likeliest ones of a prompt: a `SamplingClient` does. */
  readonly teacher: Sampler;
}

/** Options of {@link teacherTargets}. */
export interface TeacherTargetsOptions {
  /** Tokens at each place; their probabilities are made to sum to 1. @defaultValue 20 */
  readonly k?: number;
  /** Texts that are asked about at the same time. @defaultValue 64 */
  readonly maxRequests?: number;
  readonly signal?: AbortSignal | undefined;
}
const optionNames: OptionNames<TeacherTargetsOptions> = { k: true, maxRequests: true, signal: true };

/**
 * Asks teachers, each about its own data, and gives all of it with their distributions as targets, `[T, K]`, for `runSupervised`. Weights of
 * the data are a mask, as in the official cookbook: the targets of a place with weight sum to 1, those of any other to 0. Requests to the teachers are not counted in the run's budget. The digest is that of the
 * texts and `k`: name the teachers in the run's `settings`.
 *
 * @throws InvalidInputError when a teacher leaves out a place.
 *
 * @example
 * ```ts
 * const data = await teacherTargets([{ data: sums, teacher: mathematician }, { data: stories, teacher: writer }], { k: 8 });
 * for await (const event of runSupervised({ service, folder: "runs/student", baseModel, data, learningRate: 1e-4 })) console.log(event.type);
 * ```
 */
export async function teacherTargets(
  parts: readonly TaughtData[],
  options: TeacherTargetsOptions = {},
): Promise<DistillationData> {
  checkOptions("teacherTargets", options, optionNames);
  const { k = 20, maxRequests = 64, signal } = options;
  if (parts.length === 0) throw new InvalidInputError("parts", "must not be empty");
  if (!Number.isInteger(k) || k < 1) throw new InvalidInputError("k", `must be an integer above 0, got ${k}`);
  const limit = new EpisodeLimit(maxRequests);
  const asked = (of: (data: DistillationData) => readonly SupervisedDatum[]) =>
    Promise.all(
      parts.flatMap(({ data, teacher }) =>
        of(data).map((datum) => limit.run(1, () => softDatum(datum, teacher, k, signal))),
      ),
    );
  const digest = createHash("sha256").update(`${k}`);
  for (const { data } of parts) digest.update(`|${data.digest}`);
  const [train, test] = [await asked((data) => data.train), await asked((data) => data.test)];
  return { train, test, digest: digest.digest("hex").slice(0, 16) };
}

async function softDatum(
  datum: SupervisedDatum,
  teacher: Sampler,
  k: number,
  signal: AbortSignal | undefined,
): Promise<SupervisedDatum> {
  const targets = Array.from(datum.lossFnInputs.target_tokens.values, Number); // [T]
  const weights = Array.from(datum.lossFnInputs.weights.values, Number); // [T]
  signal?.throwIfAborted();
  const { topkPromptLogprobs: likeliest } = await teacher.sample(
    ModelInput.fromInts([...datum.modelInput.toInts(), targets.at(-1) as number]),
    {
      numSamples: 1,
      samplingParams: { maxTokens: 1 },
      includePromptLogprobs: true,
      topkPromptLogprobs: k,
      ...omitUndefined({ signal }),
    },
  );
  const tokens = new BigInt64Array(targets.length * k); // [T, K]
  const shares = new Float32Array(targets.length * k); // [T, K]
  targets.forEach((target, i) => {
    const isTaught = (weights[i] as number) > 0;
    const row = likeliest?.[i + 1] ?? [];
    if (isTaught && row.length === 0)
      throw new InvalidInputError("teacher", `gave no likeliest tokens at place ${i + 1} of ${targets.length + 1}`);
    const total = row.reduce((sum, [, logprob]) => sum + Math.exp(logprob), 0);
    for (let j = 0; j < k; j++) {
      const [token, logprob] = row[j] ?? [target, Number.NEGATIVE_INFINITY];
      tokens[i * k + j] = BigInt(token);
      shares[i * k + j] = isTaught ? Math.exp(logprob) / total : 0;
    }
  });
  const shape = [targets.length, k];
  return new Datum({
    modelInput: datum.modelInput,
    lossFnInputs: {
      target_tokens: TensorData.from(tokens, { shape }),
      weights: TensorData.from(shares, { shape }),
    },
  });
}
