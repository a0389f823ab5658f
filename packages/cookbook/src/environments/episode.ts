/** One episode: an environment and the policy in turns, until it is over. Every call and every answer of the environment is checked. */

import {
  APIStatusError,
  InvalidInputError,
  ModelInput,
  RequestFailedError,
  type SampledSequence,
  type SamplingParamsInput,
} from "@tinklet/sdk";
import { modelLossOf } from "@tinklet/sdk/recovery";
import { omitUndefined } from "@tinklet/wire/options";
import { derivedSeed } from "../random.ts";
import type { Action, Env, Observation, StepResult, Trajectory, Transition } from "./env.ts";
import { type CallPlace, EnvironmentError, type GuardOptions, guardedCall } from "./guarded-call.ts";
import type { RolloutOptions } from "./rollout.ts";

export const invalid = (place: CallPlace, problem: string) =>
  new EnvironmentError({ group: place.group, env: place.env, kind: "invalid", message: `${place.call} ${problem}` });

export function checkReward(reward: unknown, place: CallPlace): void {
  if (typeof reward !== "number" || !Number.isFinite(reward))
    throw invalid(place, `must give a finite reward, got ${String(reward)}`);
}

export function checkedObservation(value: Observation | undefined, place: CallPlace): Observation {
  if (!Array.isArray(value?.tokens) || value.tokens.length === 0) throw invalid(place, "gave no tokens to answer");
  return value;
}

/** Whether the server says that the prompt itself is at fault, not the key, the account or the server. */
function refusesPrompt(error: unknown): boolean {
  if (modelLossOf(error) !== undefined) return false;
  if (error instanceof APIStatusError) return [400, 413, 422].includes(error.status);
  return error instanceof InvalidInputError || (error instanceof RequestFailedError && error.category === "user");
}

/** Samples answers to one observation. */
export async function actions(
  { tokens, stop, maxTokens }: Observation,
  numSamples: number,
  seed: number,
  { group, env, options }: { readonly group: string; readonly env: number; readonly options: RolloutOptions },
): Promise<Action[]> {
  const { sampler, samplingParams, signal } = options;
  let sequences: readonly SampledSequence[];
  try {
    ({ sequences } = await sampler.sample(ModelInput.fromInts([...tokens]), {
      numSamples,
      samplingParams: { ...samplingParams, ...omitUndefined({ stop, maxTokens }), seed } as SamplingParamsInput,
      ...omitUndefined({ signal }),
    }));
  } catch (error) {
    // A prompt that the server rejects (longer than its context) is the environment's failure; any other error is the server's.
    if (signal?.aborted || !refusesPrompt(error)) throw error;
    const said = error instanceof Error ? error.message : String(error);
    throw new EnvironmentError({
      group,
      env,
      kind: "invalid",
      message: `the server refused its prompt: ${said}`,
      cause: error,
    });
  }
  return sequences.map(({ tokens: own, logprobs, stopReason }) => {
    if (logprobs === undefined)
      throw new InvalidInputError("logprobs", "are missing from a sample; the server must give them");
    return { tokens: own, logprobs, stopReason };
  });
}

export interface EpisodePlace {
  readonly group: string;
  readonly env: number;
  readonly guard: GuardOptions;
  readonly seed: number;
}

/** One episode: a trajectory for each player that had a turn. */
export async function episode(
  env: Env,
  opening: Observation,
  firstAction: Action | undefined,
  place: EpisodePlace,
  options: RolloutOptions,
): Promise<readonly Trajectory[]> {
  const { maxTurns = 32 } = options;
  const turns = new Map<number, Transition[]>();
  const call = { group: place.group, env: place.env, call: "step" };
  let observation = opening;
  for (let turn = 0; turn < maxTurns; turn++) {
    const [sampled] =
      turn === 0 && firstAction !== undefined
        ? [firstAction]
        : await actions(observation, 1, derivedSeed(place.seed, turn), { ...place, options });
    const action = sampled as Action;
    const result: StepResult = await guardedCall(call, place.guard, (signal) => env.step(action, signal));
    checkReward(result?.reward, call);
    for (const reward of result.playerRewards ?? []) checkReward(reward, call);
    const { player = 0 } = observation;
    const own = turns.get(player) ?? [];
    turns.set(player, own);
    const { reward, done, metrics = {}, logs = {} } = result;
    own.push({ observation, action, reward, done, metrics, logs });
    result.playerRewards?.forEach((more, index) => {
      const last = turns.get(index)?.pop();
      if (last !== undefined) turns.get(index)?.push({ ...last, reward: last.reward + more });
    });
    if (done) return trajectoriesOf(turns, false);
    observation = checkedObservation(result.next, call);
  }
  return trajectoriesOf(turns, true);
}

const trajectoriesOf = (turns: ReadonlyMap<number, readonly Transition[]>, truncated: boolean): Trajectory[] =>
  [...turns].sort(([a], [b]) => a - b).map(([player, transitions]) => ({ player, transitions, truncated }));
