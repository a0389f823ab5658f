/**
 * Trains on the rollouts of one step: all of them when the last has ended, or in parts while later groups are still being rolled out.
 * The parts are sent in the order of their groups, so that the sum of their gradients is the same each time.
 */

import { type AdamParamsInput, combineOutputs, type ForwardBackwardOutput, InvalidInputError } from "@tinklet/sdk";
import { omitUndefined } from "@tinklet/wire/options";
import type { Trainer } from "../clients.ts";
import type { TokenCounts } from "../cost/budget.ts";
import { type Action, type PolicyTokens, type TrajectoryGroup, toPolicyDatum } from "../environments/index.ts";
import { isUsable } from "../environments/rollout.ts";
import { settled } from "../settled.ts";
import { groupTokens } from "./advantages.ts";
import { addKlAdvantages, type Distance } from "./kl-advantages.ts";
import type { ReinforcementOptions } from "./reinforcement.ts";
import type { StepRollouts } from "./rollouts-ahead.ts";

/** The result of training on a step. */
export interface PolicyStep {
  /** Of the last optimizer step, by the server's names. */
  readonly metrics: Readonly<Record<string, number>>;
  /** The sequences of the first optimizer step, and what the server says of them. */
  readonly first: { readonly sequences: readonly PolicyTokens[]; readonly output: ForwardBackwardOutput } | undefined;
  /** From the reference, where there is one. */
  readonly distances: readonly Distance[];
}

/** The trainer's log-probabilities of the answers of the first optimizer step, where it gives any. */
export function trainedLogprobs({ first }: PolicyStep): ReadonlyMap<Action, readonly number[]> {
  const found = new Map<Action, readonly number[]>();
  first?.sequences.forEach(({ actions, mask }, at) => {
    const logprobs = first.output.lossFnOutputs[at]?.["logprobs"]?.values;
    if (logprobs?.length !== mask.length) return;
    const sampled = mask.flatMap((own, i) => (own === 1 ? [Number(logprobs[i])] : []));
    let taken = 0;
    for (const action of actions) {
      const own = sampled.slice(taken, taken + action.tokens.length);
      if (own.length === action.tokens.length) found.set(action, own);
      taken += action.tokens.length;
    }
  });
  return found;
}

/** How a step is trained. */
export interface PolicyStepOptions {
  readonly adam: AdamParamsInput;
  /** Notes tokens before they are submitted. */
  readonly spend: (tokens: TokenCounts) => Promise<void>;
}

export function trainStep(
  options: ReinforcementOptions,
  rollouts: StepRollouts,
  how: PolicyStepOptions,
): Promise<PolicyStep> {
  return (options.microBatches ?? 1) > 1 ? inMicroBatches(options, rollouts, how) : inOne(options, rollouts, how);
}

type AddingTrainer = Trainer & Required<Pick<Trainer, "forwardBackward" | "optimStep">>;

/** A trainer whose passes accumulate gradients. @throws InvalidInputError if it cannot. */
export function addingTrainer(trainer: Trainer): AddingTrainer {
  if (trainer.forwardBackward === undefined || trainer.optimStep === undefined)
    throw new InvalidInputError("trainer", "must have forwardBackward and optimStep where microBatches is above 1");
  return trainer as AddingTrainer;
}

async function inOne(
  options: ReinforcementOptions,
  rollouts: StepRollouts,
  { adam, spend }: PolicyStepOptions,
): Promise<PolicyStep> {
  const { trainer, lossFn = "importance_sampling", lossFnConfig, substeps = 1 } = options;
  const { groups } = await rollouts.all;
  const { sequences, distances, tokens } = await scored(options, groups);
  await spend(tokens);
  // No sequences, because all rewards were equal, make no parts: most servers refuse an empty batch.
  const parts = splitEvenly(sequences, substeps);
  const trained = [];
  for (const part of parts) trained.push(await trainer.step(part.map(toPolicyDatum), lossFn, adam, { lossFnConfig }));
  const [part, step] = [parts[0], trained[0]];
  return {
    metrics: trained.at(-1)?.metrics ?? {},
    first: part === undefined || step === undefined ? undefined : { sequences: part, output: step.output },
    distances,
  };
}

async function inMicroBatches(
  options: ReinforcementOptions,
  rollouts: StepRollouts,
  { adam, spend }: PolicyStepOptions,
): Promise<PolicyStep> {
  const { lossFn = "importance_sampling", lossFnConfig, microBatches = 1 } = options;
  const trainer = addingTrainer(options.trainer);
  const passes: { readonly sequences: readonly PolicyTokens[]; readonly output: Promise<ForwardBackwardOutput> }[] = [];
  const distances: Distance[] = [];
  for (const part of splitEvenly(rollouts.each, microBatches)) {
    const ended = await Promise.all(part).catch(async (error: unknown) => {
      await rollouts.all; // rejects with the first failure
      throw error;
    });
    const { sequences, tokens, ...apart } = await scored(options, ended.filter(isUsable));
    await spend(tokens);
    distances.push(...apart.distances);
    if (sequences.length === 0) continue;
    const pass = trainer.forwardBackward(sequences.map(toPolicyDatum), lossFn, { lossFnConfig });
    passes.push({ sequences, output: settled(pass) });
  }
  if (passes.length === 0) return { metrics: {}, first: undefined, distances };
  const stepped = settled(trainer.optimStep(adam));
  const output = combineOutputs(await Promise.all(passes.map((pass) => pass.output)));
  const metrics = { ...output.metrics, ...(await stepped).metrics };
  return { metrics, first: { sequences: passes.flatMap(({ sequences }) => sequences), output }, distances };
}

/** The sequences of groups with their advantages, and the tokens that training on them takes. */
async function scored(options: ReinforcementOptions, groups: readonly TrajectoryGroup[]) {
  const { kl, advantages } = options;
  const grouped = groups.map((group) => ({
    group,
    sequences: groupTokens(group, { keepEqual: kl !== undefined, ...omitUndefined({ advantages }) }),
  }));
  const sequences = grouped.flatMap((one) => one.sequences);
  const distances = kl === undefined || sequences.length === 0 ? [] : await addKlAdvantages(grouped, kl);
  return { sequences, distances, tokens: tokensOf(groups, sequences, kl !== undefined) };
}

function tokensOf(
  groups: readonly TrajectoryGroup[],
  sequences: readonly PolicyTokens[],
  scored: boolean,
): TokenCounts {
  const turns = groups.flatMap(({ trajectories }) => trajectories.flatMap(({ transitions }) => transitions));
  const count = (of: (turn: (typeof turns)[number]) => number) => turns.reduce((sum, turn) => sum + of(turn), 0);
  const train = sequences.reduce((sum, { tokens }) => sum + tokens.length - 1, 0);
  const prompts = count(({ observation }) => observation.tokens.length);
  return { train, evaluate: prompts + (scored ? train : 0), sample: count(({ action }) => action.tokens.length) };
}

/** Parts whose sizes differ by at most one, as the official cookbook's `split_list` cuts them; as many as there are items where these are fewer. */
export function splitEvenly<T>(all: readonly T[], count: number): T[][] {
  const parts = Math.min(count, all.length);
  const edge = (at: number) => (at === parts ? all.length : Math.floor(at * (all.length / parts)));
  return Array.from({ length: parts }, (_, at) => all.slice(edge(at), edge(at + 1)));
}
