/**
 * The distance from a reference as an advantage of each token: `-coefficient · (log π - log π_ref)`. Centred it keeps a policy
 * near the reference while it follows a reward; plain, with a teacher as reference, it is on-policy distillation.
 */
import { InvalidInputError, ModelInput } from "tinklet";
import type { Scorer } from "./clients.ts";
import { EpisodeLimit } from "./environments/episode-limit.ts";
import type { PolicyTokens } from "./environments/index.ts";

/** A reference that the policy is kept near, or drawn to. */
export interface KlOptions {
  /** For example `await service.createSamplingClient({ baseModel })`. The same for the whole run. */
  readonly reference: Scorer;
  /** How much it counts against a reward of 1. */
  readonly coefficient: number;
  /**
   * Whether the mean over the batch is taken off, so that the distance as such is not punished, only where it is largest.
   * @defaultValue true
   */
  readonly centred?: boolean;
}

/** Requests for log-probabilities at the same time. */
const maxRequests = 128;

/**
 * Adds the distance to the advantages, in place.
 *
 * @returns the mean distance per sampled token
 * @throws InvalidInputError when the reference leaves out a token.
 */
export async function addKlAdvantages(
  data: readonly PolicyTokens[],
  { reference, coefficient, centred = true }: KlOptions,
): Promise<number> {
  if (!Number.isFinite(coefficient))
    throw new InvalidInputError("coefficient", `must be a finite number, and is ${coefficient}`);
  const limit = new EpisodeLimit(maxRequests);
  const distances = await Promise.all(
    data.map(({ tokens, logprobs, mask }) =>
      limit.run(1, async () => {
        const scores = await reference.computeLogprobs(ModelInput.fromInts([...tokens]));
        return mask.map((own, i) => {
          if (own === 0) return 0;
          const score = scores[i + 1];
          if (typeof score !== "number" || !Number.isFinite(score))
            throw new InvalidInputError("reference", `gave no log-probability for token ${i + 1} of ${tokens.length}`);
          return (logprobs[i] as number) - score;
        });
      }),
    ),
  );
  const sampled = data.reduce((sum, { mask }) => sum + mask.reduce((own, one) => own + one, 0), 0);
  const mean = distances.flat().reduce((sum, one) => sum + one, 0) / Math.max(sampled, 1);
  data.forEach(({ advantages, mask }, at) => {
    distances[at]?.forEach((distance, i) => {
      if (mask[i] === 1) advantages[i] = (advantages[i] as number) + coefficient * ((centred ? mean : 0) - distance);
    });
  });
  return mean;
}
