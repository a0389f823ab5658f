/**
 * The distance from a reference as an advantage of each token: `-coefficient · (log π - log π_ref)`. Centred it keeps a policy
 * near the reference while it follows a reward; plain, with a teacher as reference, it is on-policy distillation.
 */
import { InvalidInputError, ModelInput } from "@tinklet/sdk";
import type { Scorer } from "../clients.ts";
import { EpisodeLimit } from "../environments/episode-limit.ts";
import type { PolicyTokens, TrajectoryGroup } from "../environments/index.ts";

/** A reference that the policy stays near, or a teacher that it learns from. */
export interface KlOptions {
  /**
   * For example `await service.createSamplingClient({ baseModel })`, the same for the whole run; or a function of the group, for example of
   * its tags: the distance is then also reported per tag.
   */
  readonly reference: Scorer | ((group: TrajectoryGroup) => Scorer);
  /** Weight of the distance (nats) relative to a reward of 1. */
  readonly coefficient: number;
  /**
   * Whether the mean over the batch is subtracted, so that only distances above the mean are penalised.
   * @defaultValue true
   */
  readonly centred?: boolean;
  /**
   * Each sampled token's advantage also counts what follows in its sequence, each position further on by this factor less: the official
   * `kl_discount_factor`. 0: its own distance alone. @defaultValue 0
   */
  readonly discount?: number;
}

/** Sequences of one group. */
export interface GroupSequences {
  readonly group: TrajectoryGroup;
  readonly sequences: readonly PolicyTokens[];
}

/** How far sampled tokens are from the reference. */
export interface Distance {
  readonly tags: readonly string[];
  /** Over the tokens. */
  readonly sum: number;
  readonly tokens: number;
}

/** Requests for log-probabilities at the same time. */
const maxRequests = 128;

/**
 * Adds the distance to the advantages, in place.
 *
 * @returns the distance of each group
 * @throws InvalidInputError when the reference leaves out a token.
 */
export async function addKlAdvantages(
  groups: readonly GroupSequences[],
  { reference, coefficient, centred = true, discount = 0 }: KlOptions,
): Promise<readonly Distance[]> {
  if (!Number.isFinite(coefficient))
    throw new InvalidInputError("coefficient", `must be a finite number, got ${coefficient}`);
  if (!(discount >= 0 && discount <= 1))
    throw new InvalidInputError("discount", `must be a number from 0 to 1, got ${discount}`);
  const limit = new EpisodeLimit(maxRequests);
  const each = await Promise.all(
    groups.map(async ({ group, sequences }) => {
      const own = typeof reference === "function" ? reference(group) : reference;
      if (typeof own?.computeLogprobs !== "function")
        throw new InvalidInputError("reference", `must be a sampling client, also for the group ${group.name}`);
      const apart = await Promise.all(sequences.map((one) => limit.run(1, () => distancesOf(one, own))));
      return { group, sequences, apart };
    }),
  );
  const distances = each.map(({ group, sequences, apart }) => ({
    tags: group.tags,
    sum: apart.flat().reduce((sum, one) => sum + one, 0),
    tokens: sequences.reduce((sum, { mask }) => sum + mask.reduce((own, one) => own + one, 0), 0),
  }));
  const taken = centred ? meanDistance(distances) : 0;
  for (const { sequences, apart } of each) {
    sequences.forEach(({ advantages, mask }, at) => {
      const own = (apart[at] ?? []).map((distance, i) => (mask[i] === 1 ? coefficient * (taken - distance) : 0));
      // Prompts and tool results get none: they have no sampled log-prob that a policy loss could compare with.
      futureSums(own, discount).forEach((sum, i) => {
        if (mask[i] === 1) advantages[i] = (advantages[i] as number) + sum;
      });
    });
  }
  return distances;
}

/** Each value plus the ones after it, the k-th of them times `discount ** k`. */
export function futureSums(values: readonly number[], discount: number): number[] {
  const sums = [...values];
  for (let at = sums.length - 2; at >= 0; at--) sums[at] = (sums[at] as number) + discount * (sums[at + 1] as number);
  return sums;
}

/** `log π - log π_ref` of each target; 0 where it was not sampled. */
async function distancesOf({ tokens, logprobs, mask }: PolicyTokens, reference: Scorer): Promise<number[]> {
  const scores = await reference.computeLogprobs(ModelInput.fromInts([...tokens]));
  return mask.map((own, i) => {
    if (own === 0) return 0;
    const score = scores[i + 1];
    if (typeof score !== "number" || !Number.isFinite(score))
      throw new InvalidInputError("reference", `gave no log-probability for token ${i + 1} of ${tokens.length}`);
    return (logprobs[i] as number) - score;
  });
}

/** The mean distance per sampled token. */
function meanDistance(distances: readonly Distance[]): number {
  const [sum, tokens] = distances.reduce(([all, count], one) => [all + one.sum, count + one.tokens], [0, 0]);
  return sum / Math.max(tokens, 1);
}

/** The mean distance per sampled token by its name in the metrics; per tag too, where a tag marks some groups only. */
export function distanceMetrics(name: string, distances: readonly Distance[]): Record<string, number> {
  if (distances.length === 0) return {};
  const metrics: Record<string, number> = { [name]: meanDistance(distances) };
  for (const tag of new Set(distances.flatMap(({ tags }) => tags))) {
    const own = distances.filter(({ tags }) => tags.includes(tag));
    if (own.length < distances.length) metrics[`${name}/${tag}`] = meanDistance(own);
  }
  return metrics;
}
