/**
 * Converts AI SDK runs to trajectories, from the token data in the results of this provider. Results are plain data, so the agent needs no
 * instrumentation while it runs.
 */
import type { Trajectory, Transition } from "@tinklet/cookbook";
import { InvalidInputError } from "@tinklet/sdk";
import { metadataName, type SamplerRecord, type TokenRecord } from "./token-record.ts";

/** The fields of an AI SDK step that are read here. */
export interface AgentStep {
  readonly providerMetadata?: Readonly<Record<string, unknown>> | undefined;
  /** `tool-calls` on the last step means that the loop was stopped before the agent finished. */
  readonly finishReason?: string | undefined;
}

/** A result of `generateText`, `streamText` or an agent. The steps of a stream resolve when it ends. */
export interface AgentRun {
  readonly steps: readonly AgentStep[] | PromiseLike<readonly AgentStep[]>;
}

/** A trajectory of the cookbook, with the sampler of each turn. */
export interface AgentTrajectory extends Trajectory {
  /** One entry per transition. */
  readonly samplers: readonly SamplerRecord[];
}

/**
 * Converts an agent's run to one trajectory. Turns of other providers' models are skipped, because they have no tokens to train on.
 * Rewards are 0 here; pass the real ones to {@link toData}.
 *
 * @param run - a result, the promise of one, or a list of either: the runs of one episode, in order
 *
 * @throws {@link InvalidInputError} (as a rejection) if no turn was sampled from a Tinklet model, or a turn has no log-probs.
 *
 * @example
 * ```ts
 * const agent = { model: samplerModel(sampler), tools, stopWhen: stepCountIs(5) };
 * const trajectory = await record(generateText({ ...agent, prompt: "What is 17 * 23?" }));
 * console.log(trajectory.transitions.length);
 * ```
 */
export async function record(
  run: AgentRun | PromiseLike<AgentRun> | readonly (AgentRun | PromiseLike<AgentRun>)[],
): Promise<AgentTrajectory> {
  const runs = await Promise.all((isList(run) ? run : [run]).map(async (each) => each));
  const lists = await Promise.all(
    runs.map(async (each, at): Promise<readonly AgentStep[]> => {
      const steps = await each?.steps;
      if (Array.isArray(steps)) return steps as readonly AgentStep[];
      throw new InvalidInputError(isList(run) ? `run[${at}]` : "run", "has no list of steps", {
        hint: "Pass the result of generateText or streamText.",
      });
    }),
  );
  const steps = lists.flat();
  const records = steps.map(recordOf).filter((found) => found !== undefined);
  if (records.length === 0) {
    throw new InvalidInputError("run", "has no step that was sampled from a model of @tinklet/ai");
  }
  return {
    player: 0,
    transitions: records.map((each, at) => transition(each, at === records.length - 1)),
    truncated: steps.at(-1)?.finishReason === "tool-calls",
    samplers: records.map(({ sampler }) => sampler),
  };
}

const isList = <T>(value: T | readonly T[]): value is readonly T[] => Array.isArray(value);

function recordOf({ providerMetadata }: AgentStep, at: number): (TokenRecord & { readonly at: number }) | undefined {
  const found = providerMetadata?.[metadataName] as Partial<TokenRecord> | undefined;
  return found?.promptTokenIds === undefined ? undefined : ({ ...found, at } as TokenRecord & { readonly at: number });
}

function transition(found: TokenRecord & { readonly at: number }, done: boolean): Transition {
  const { promptTokenIds, tokenIds, logprobs, stopReason } = found;
  if (logprobs?.length !== tokenIds.length) {
    throw new InvalidInputError(
      `run.steps[${found.at}]`,
      "has no log-probs for its tokens; training needs a server that returns them",
    );
  }
  const action = { tokens: tokenIds, logprobs, stopReason };
  return { observation: { tokens: promptTokenIds }, action, reward: 0, done, metrics: {}, logs: {} };
}
