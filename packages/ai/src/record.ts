/**
 * What an agent did, as a trajectory: the turns of one or more runs of the AI SDK, with the tokens that results of this provider carry.
 * Results are plain data, so nothing has to watch the agent while it runs.
 */
import type { Trajectory, Transition } from "@tinklet/cookbook";
import { InvalidInputError } from "@tinklet/sdk";
import { metadataName, type SamplerRecord, type TokenRecord } from "./token-record.ts";

/** A step of a run, as far as it matters here. */
export interface AgentStep {
  readonly providerMetadata?: Readonly<Record<string, unknown>> | undefined;
  /** `tool-calls` where the loop would have gone on. */
  readonly finishReason?: string | undefined;
}

/** What `generateText`, `streamText` and agents return. Steps of a stream are there when it has ended. */
export interface AgentRun {
  readonly steps: readonly AgentStep[] | PromiseLike<readonly AgentStep[]>;
}

/** A trajectory, as the cookbook has it, and who drew each of its turns. */
export interface AgentTrajectory extends Trajectory {
  /** One for each transition. */
  readonly samplers: readonly SamplerRecord[];
}

/**
 * The turns of an agent's run as one trajectory. Turns of other providers' models are left out: there is nothing to learn from them.
 * Rewards are 0; give them to {@link toData}.
 *
 * @param run - a result, the promise of one, or a list of either: the runs of one episode, in order
 *
 * @throws {@link InvalidInputError} (by rejecting) where no turn was drawn by a Tinklet model, or one has no log-probs.
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
        hint: "Give what generateText or streamText returned.",
      });
    }),
  );
  const steps = lists.flat();
  const records = steps.map(recordOf).filter((found) => found !== undefined);
  if (records.length === 0) {
    throw new InvalidInputError("run", "has no step that a model of @tinklet/ai has drawn");
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
    throw new InvalidInputError(`run.steps[${found.at}]`, "has no log-probs for its tokens; the server must give them");
  }
  const action = { tokens: tokenIds, logprobs, stopReason };
  return { observation: { tokens: promptTokenIds }, action, reward: 0, done, metrics: {}, logs: {} };
}
