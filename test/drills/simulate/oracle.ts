/**
 * Says what a client must have seen of one model. A call that succeeded was applied exactly once, in the order of the calls; one that failed
 * may have been applied or not, a batch also in part. The oracle follows every state that this allows; when no state explains what was seen,
 * a request was lost, doubled, reordered or mixed up.
 */
import { accumulated, type Example, type ModelState, sampledTokens, stepped, targetLogprobs } from "./arithmetic.ts";

export type Operation =
  | {
      readonly kind: "pass";
      readonly backward: boolean;
      /** The batch as it was cut into requests. */
      readonly chunks: readonly (readonly Example[])[];
      /** Log-probs by datum, of a call that succeeded. */
      logprobs?: readonly (readonly number[])[];
    }
  | { readonly kind: "step"; readonly learningRate: number }
  | { readonly kind: "save"; readonly name: string }
  | { readonly kind: "load"; readonly name: string; readonly optimizer: boolean }
  | { readonly kind: "sampler"; readonly name: string };

/** A call on a model, in the order of the calls. */
export interface Call {
  readonly operation: Operation;
  outcome: "done" | "unknown";
}

export interface Sample {
  readonly sampler: string;
  readonly prompt: readonly number[];
  readonly seed: number;
  readonly sequences: readonly (readonly number[])[];
}

interface Possible {
  readonly state: ModelState;
  readonly saved: Readonly<Record<string, Pick<ModelState, "weights" | "moments">>>;
  readonly samplers: Readonly<Record<string, number>>;
}

/** More states than this are not followed: the model is not judged further. */
const mostStates = 2_000;

const apply = (possible: Possible, operation: Operation): Possible => {
  const { state, saved, samplers } = possible;
  switch (operation.kind) {
    case "pass":
      return operation.backward
        ? { ...possible, state: operation.chunks.flat().reduce((all, example) => accumulated(all, example), state) }
        : possible;
    case "step":
      return { ...possible, state: stepped(state, operation.learningRate) };
    case "save":
      return { ...possible, saved: { ...saved, [operation.name]: { weights: state.weights, moments: state.moments } } };
    case "load": {
      const from = saved[operation.name];
      if (from === undefined) return possible;
      return {
        ...possible,
        state: { weights: from.weights, moments: operation.optimizer ? from.moments : 0, gradient: 0 },
      };
    }
    case "sampler":
      return { ...possible, samplers: { ...samplers, [operation.name]: state.weights } };
  }
};

/** Everything that a call whose outcome is unknown may have done. */
function* partly(possible: Possible, operation: Operation): Generator<Possible> {
  yield possible;
  if (operation.kind !== "pass") {
    yield apply(possible, operation);
    return;
  }
  if (!operation.backward) return;
  const { chunks } = operation;
  for (let mask = 1; mask < 2 ** chunks.length; mask++) {
    const taken = chunks.filter((_, i) => (mask & (1 << i)) !== 0);
    yield apply(possible, { ...operation, chunks: taken });
  }
}

const explains = ({ state }: Possible, operation: Operation): boolean => {
  if (operation.kind !== "pass" || operation.logprobs === undefined) return true;
  const { logprobs } = operation;
  const examples = operation.chunks.flat();
  return (
    logprobs.length === examples.length &&
    examples.every((example, i) => {
      const expected = targetLogprobs(state, example);
      return expected.length === logprobs[i]!.length && expected.every((value, at) => value === logprobs[i]![at]);
    })
  );
};

const distinct = (states: Iterable<Possible>): Possible[] => [
  ...new Map([...states].map((each) => [JSON.stringify(each), each])).values(),
];

export interface Judgement {
  /** What is wrong; `undefined` when everything that was seen can be explained. */
  readonly problem: string | undefined;
  /** False when the states were too many: the calls after that are not judged, and `saved` may lack states. */
  readonly isComplete: boolean;
  /** The states that a model created from a checkpoint may begin in. */
  readonly saved: (name: string, optimizer: boolean) => readonly ModelState[];
}

/** @param starts - the states that the model may have begun in */
export function judge(
  starts: readonly ModelState[],
  calls: readonly Call[],
  samples: readonly Sample[],
  vocabulary: number,
): Judgement {
  let possible: Possible[] = starts.map((state) => ({ state, saved: {}, samplers: {} }));
  const judgement = (problem: string | undefined, isComplete: boolean): Judgement => {
    const found = possible;
    return {
      problem,
      isComplete,
      saved: (name, optimizer) =>
        found.flatMap(({ saved }) => {
          const from = saved[name];
          return from === undefined
            ? []
            : [{ weights: from.weights, moments: optimizer ? from.moments : 0, gradient: 0 }];
        }),
    };
  };
  for (const [index, { operation, outcome }] of calls.entries()) {
    if (outcome === "done") {
      const left = possible.filter((each) => explains(each, operation));
      if (left.length === 0) {
        return judgement(`call ${index} (${operation.kind}): no order of the accepted requests gives its result`, true);
      }
      possible = distinct(left.map((each) => apply(each, operation)));
    } else {
      possible = distinct(possible.flatMap((each) => [...partly(each, operation)]));
    }
    if (possible.length > mostStates) return judgement(undefined, false);
  }
  for (const { sampler, prompt, seed: sampleSeed, sequences } of samples) {
    possible = possible.filter(({ samplers }) => {
      const weights = samplers[sampler];
      return (
        weights !== undefined &&
        sequences.every((tokens, i) => {
          const expected = sampledTokens(weights, prompt, sampleSeed + i, tokens.length, vocabulary);
          return expected.every((token, at) => token === tokens[at]);
        })
      );
    });
    if (possible.length === 0) return judgement(`a sample of ${sampler} is not of the weights that were saved`, true);
  }
  return judgement(undefined, true);
}
