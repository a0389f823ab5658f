/**
 * The numbers of the simulated model: hashes, so that a lost, doubled or reordered request changes every later result. Shared by the engine
 * and by the oracle that says what a client must see.
 */
import { mix } from "./random.ts";

/** What training changes: the weights, the optimizer's moments, and the gradients since the last step. */
export interface ModelState {
  readonly weights: number;
  readonly moments: number;
  readonly gradient: number;
}

export interface Example {
  readonly tokens: readonly number[];
  readonly targets: readonly number[];
}

export const initialState = (seed: number): ModelState => ({ weights: mix(0x51ed, seed), moments: 0, gradient: 0 });

/** Exactly representable as a float32. */
const unit = (hash: number): number => -((hash >>> 8) + 1) / 2 ** 24;

export const targetLogprobs = ({ weights }: ModelState, { tokens, targets }: Example): number[] =>
  targets.map((target, i) => unit(mix(mix(weights, (tokens[i] ?? 0) + 1), mix(target, i))));

const exampleHash = ({ tokens, targets }: Example): number =>
  [...tokens, -1, ...targets].reduce((hash, token) => mix(hash, token + 7), 0x77);

export const accumulated = (state: ModelState, example: Example): ModelState => ({
  ...state,
  gradient: mix(state.gradient, exampleHash(example)),
});

export function stepped(state: ModelState, learningRate: number): ModelState {
  const moments = mix(mix(state.moments, state.gradient), Math.round(learningRate * 1e9));
  return { weights: mix(state.weights, moments), moments, gradient: 0 };
}

/** The tokens of one sample. */
export function sampledTokens(
  weights: number,
  prompt: readonly number[],
  seed: number,
  length: number,
  vocabulary: number,
): number[] {
  let hash = prompt.reduce((all, token) => mix(all, token + 3), mix(weights, seed));
  return Array.from({ length }, () => {
    hash = mix(hash, 0x2545);
    return hash % vocabulary;
  });
}

export const sampledLogprob = (weights: number, token: number): number => unit(mix(weights, token + 11));
