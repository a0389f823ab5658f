/**
 * From trajectories to data for a policy loss. A prompt that continues the tokens of the last turn continues its datum, so that a
 * conversation becomes one; any other prompt begins a new one.
 */
import { Datum, ModelInput } from "@tinklet/sdk";
import type { Action, Trajectory } from "./env.ts";

/** A datum for the losses that learn from advantages. */
export type PolicyDatum = Datum<"target_tokens" | "logprobs" | "advantages">;

/** The contents of a datum that is not built yet: advantages may still change. All lists but `tokens` are as long as the targets. */
export interface PolicyTokens {
  readonly tokens: readonly number[];
  readonly logprobs: number[];
  readonly advantages: number[];
  /** 1 where the token was sampled. */
  readonly mask: number[];
  /** The actions that the sampled tokens belong to, in order. */
  readonly actions: readonly Action[];
}

/** The token sequences of one trajectory with its advantage on every sampled token. */
export function trajectoryTokens(trajectory: Trajectory, advantage: number): PolicyTokens[] {
  const done: PolicyTokens[] = [];
  let tokens: number[] = [];
  let logprobs: number[] = [];
  let advantages: number[] = [];
  let mask: number[] = [];
  let actions: Action[] = [];
  const add = (more: readonly number[], own: { readonly logprobs: readonly number[] } | undefined) => {
    more.forEach((token, i) => {
      tokens.push(token);
      logprobs.push(own?.logprobs[i] ?? 0);
      advantages.push(own === undefined ? 0 : advantage);
      mask.push(own === undefined ? 0 : 1);
    });
  };
  const end = () => {
    // The first token is never a target.
    if (mask.includes(1))
      done.push({
        tokens,
        logprobs: logprobs.slice(1),
        advantages: advantages.slice(1),
        mask: mask.slice(1),
        actions,
      });
    tokens = [];
    actions = [];
    [logprobs, advantages, mask] = [[], [], []];
  };
  for (const { observation, action } of trajectory.transitions) {
    if (!continues(observation.tokens, tokens)) end();
    add(observation.tokens.slice(tokens.length), undefined);
    add(action.tokens, action);
    actions.push(action);
  }
  end();
  return done;
}

/** Whether a prompt begins with these tokens. */
export function continues(prompt: readonly number[], tokens: readonly number[]): boolean {
  return prompt.length >= tokens.length && tokens.every((token, i) => token === prompt[i]);
}

/** The datum of a sequence. */
export function toPolicyDatum({ tokens, logprobs, advantages }: PolicyTokens): PolicyDatum {
  return new Datum({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: { target_tokens: tokens.slice(1), logprobs, advantages },
  });
}
