// What our cookbook's algorithms make of generated inputs, with the inputs, for algorithms.py: `main.js OUT`.
import { writeFileSync } from "node:fs";
import { dpo, groupTokens, meanNll, scheduleFactor, schedules, seededRandom, toDatum } from "@tinklet/cookbook";
import { autodiff, Datum, ModelInput, TensorData } from "@tinklet/sdk";
import { AdamParams } from "@tinklet/wire";
import type { PolicyTokens, TrajectoryGroup } from "../../../packages/cookbook/src/environments/index.ts";
import { adamParams } from "../../../packages/cookbook/src/loops/adam.ts";
import { addKlAdvantages } from "../../../packages/cookbook/src/loops/kl-advantages.ts";
import { splitEvenly } from "../../../packages/cookbook/src/loops/policy-step.ts";
import { teacherTargets } from "../../../packages/cookbook/src/loops/teacher-targets.ts";

const [out = ""] = process.argv.slice(2);
const random = seededRandom(20);
const below = (count: number) => Math.floor(random() * count);
const list = <T>(length: number, make: (at: number) => T): T[] => Array.from({ length }, (_, at) => make(at));
const logprob = () => -Number((0.05 + 3 * random()).toFixed(3));
const values = (tensor: { readonly values: ArrayLike<number | bigint> }) =>
  Array.from(tensor.values as ArrayLike<number>, Number);

// Both sides compute these from the tokens, so that a reference or a teacher need not travel.
const referenceLogprobs = (tokens: readonly number[]) =>
  tokens.map((token, at) => (at === 0 ? null : -(((token * 7 + at * 3) % 11) / 10) - 0.1));
const likeliest = (tokens: readonly number[], k: number) =>
  tokens.map((token, at) =>
    at === 0 ? null : list(k, (j): [number, number] => [(token * 5 + j * 3) % 97, -0.2 - 0.7 * j]),
  );
const scorer = { computeLogprobs: async (prompt: ModelInput) => referenceLogprobs(prompt.toInts()) };

/** Supervised data: lengths, cuts and both reductions. */
const supervised = list(60, () => {
  const tokens = list(2 + below(12), () => below(97));
  const weights = tokens.map(() => below(2));
  const maxLength = [undefined, 4, 8][below(3)];
  const reduction = below(2) === 0 ? ("mean" as const) : ("sum" as const);
  const datum = toDatum({ tokens, weights }, { maxLength, reduction });
  const ours = datum && {
    input: datum.modelInput.toInts(),
    targets: values(datum.lossFnInputs.target_tokens),
    weights: values(datum.lossFnInputs.weights),
  };
  return { tokens, weights, max_length: maxLength ?? null, reduction, ours: ours ?? null };
});

/** Groups of conversations: some prompts continue the last turn, others start a new sequence. */
const groups = list(12, (group) => {
  const trajectories = list(3, () => {
    let before: number[] = [];
    const turns = list(1 + below(3), () => {
      const observation = [...(below(3) === 0 ? [] : before), ...list(1 + below(4), () => below(97))];
      const tokens = list(1 + below(4), () => below(97));
      before = [...observation, ...tokens];
      return { observation, tokens, logprobs: tokens.map(logprob) };
    });
    return { turns, reward: group % 4 === 0 ? 1 : below(5) / 4 };
  });
  return trajectories;
});
const groupOf = (trajectories: (typeof groups)[number]): TrajectoryGroup => ({
  name: "g",
  tags: [],
  failures: [],
  groupRewards: [],
  totalRewards: trajectories.map(({ reward }) => reward),
  trajectories: trajectories.map(({ turns }) => ({
    player: 0,
    truncated: false,
    transitions: turns.map(({ observation, tokens, logprobs }) => ({
      observation: { tokens: observation },
      action: { tokens, logprobs, stopReason: "stop" },
      ...{ reward: 0, done: false, metrics: {}, logs: {} },
    })),
  })),
});
const sequences = () =>
  groups.map(groupOf).map((group) => ({ group, sequences: groupTokens(group, { keepEqual: true }) }));
const policyData = (all: readonly PolicyTokens[]) =>
  all.map(({ tokens, logprobs, advantages, mask }) => ({ tokens, logprobs, advantages, mask }));
const rollouts = { groups, ours: policyData(sequences().flatMap((one) => one.sequences)) };

const kl = await Promise.all(
  [true, false].flatMap((centred) =>
    [0, 0.9].map(async (discount) => {
      const all = sequences();
      const coefficient = 0.3;
      await addKlAdvantages(all, { reference: scorer, coefficient, centred, discount });
      return { centred, discount, coefficient, ours: policyData(all.flatMap((one) => one.sequences)) };
    }),
  ),
);

const trained = (weights: readonly number[]) =>
  new Datum({
    modelInput: ModelInput.fromInts(weights.map(() => 1)),
    lossFnInputs: { target_tokens: weights.map(() => 1), weights: [...weights] },
  });
const preference = list(10, () => {
  const answers = list(2 * (1 + below(4)), () => list(3, logprob));
  const reference = answers.map(logprob);
  const beta = 0.1 + below(3) / 10;
  const data = answers.map(() => trained([0, 1, 1]));
  const leaves = answers.map((one) => autodiff.leaf(one));
  const learned = dpo({ reference, beta })(data, leaves) as {
    loss: { item(): number };
    metrics: Record<string, number>;
  };
  return { answers, reference, beta, ours: { loss: learned.loss.item(), ...learned.metrics } };
});

const taught = list(10, () => {
  const tokens = list(3 + below(6), () => below(97));
  const weights = tokens.slice(1).map(() => below(3) / 2);
  return { tokens, weights };
});
const teacher = {
  sample: async (prompt: ModelInput, { topkPromptLogprobs: k = 0 }) => ({
    topkPromptLogprobs: likeliest(prompt.toInts(), k),
  }),
};
const targets = await teacherTargets(
  [
    {
      teacher: teacher as never,
      data: {
        train: taught.map(
          ({ tokens, weights }) =>
            new Datum({
              modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
              lossFnInputs: { target_tokens: tokens.slice(1), weights },
            }),
        ),
        ...{ test: [], digest: "d" },
      },
    },
  ],
  { k: 4 },
);

const measured = list(6, () => list(3, () => ({ logprobs: list(4, logprob), weights: list(4, () => below(3) / 2) })));
const nll = measured.map((batch) => ({
  batch,
  ours: meanNll(
    {
      lossFnOutputs: batch.map(({ logprobs }) => ({ logprobs: TensorData.from(Float32Array.from(logprobs)) })),
    } as never,
    batch.map(({ weights }) => trained(weights)),
  ),
}));

const input = {
  supervised,
  rollouts,
  kl,
  preference,
  taught: taught.map((one, at) => {
    const { target_tokens, weights } = targets.train[at]!.lossFnInputs;
    return { ...one, ours: { targets: values(target_tokens), weights: values(weights), shape: target_tokens.shape } };
  }),
  nll,
  schedules: schedules.flatMap((schedule) =>
    list(10, (step) => ({ schedule, step, total: 10, ours: scheduleFactor(schedule, { step, totalSteps: 10 }) })),
  ),
  substeps: [1, 2, 3, 4, 5, 7, 9, 40].map((count) => ({
    count,
    ours: splitEvenly(rollouts.ours, count).map((part) => part.length),
  })),
  adam: AdamParams.decode(AdamParams.encode(adamParams(undefined, 1e-3))),
};
writeFileSync(out, JSON.stringify(input));
