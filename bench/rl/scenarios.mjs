// What reinforcement learning sends, as token ids: made from a seed, so that both builds get the same.

import { seededRandom } from "@tinklet/wire/entropy";

const idsOf = (random, vocabSize) => (length) =>
  Array.from({ length }, () => 3 + Math.floor(random() * (vocabSize - 3)));

/** A prompt with its answer as a policy-gradient datum: only the answer has weight. */
const policyDatum = (prompt, answer, random) => {
  const all = [...prompt, ...answer];
  const counts = (value) =>
    Float32Array.from({ length: all.length - 1 }, (_, i) => (i >= prompt.length - 1 ? value() : 0));
  const advantage = random() < 0.5 ? -0.5 : 0.5;
  return {
    tokens: Int32Array.from(all.slice(0, -1)),
    lossFnInputs: {
      target_tokens: { data: Int32Array.from(all.slice(1)) },
      logprobs: { data: counts(() => -1 - random()) },
      advantages: { data: counts(() => advantage) },
      weights: { data: counts(() => 1) },
    },
  };
};

/** Groups of answers to one prompt each; `prompts` are token ids. */
export const groups = (prompts, { answers = 8, longest = 6, vocabSize, seed }) => {
  const random = seededRandom(seed);
  const ids = idsOf(random, vocabSize);
  return prompts.flatMap((prompt) =>
    Array.from({ length: answers }, () => policyDatum(prompt, ids(2 + Math.floor(random() * (longest - 1))), random)),
  );
};

/**
 * Conversations of ten turns that begin alike, every turn a datum of its own. The history holds an answer as it was rendered
 * again, which are other tokens than those sampled.
 */
export const conversations = ({ count = 64, turns = 10, start = 120, answer = 40, reply = 32, vocabSize, seed }) => {
  const random = seededRandom(seed);
  const ids = idsOf(random, vocabSize);
  const first = ids(start);
  return Array.from({ length: count }, () => {
    let prompt = first;
    return Array.from({ length: turns }, () => {
      const own = prompt;
      prompt = [...prompt, ...ids(answer), ...ids(reply)];
      return { prompt: own, datum: policyDatum(own, ids(answer), random) };
    });
  });
};

/** Sequences that share their first tokens and nothing else; all of them count. */
export const sharing = ({ count, length, shared, vocabSize, seed }) => {
  const ids = idsOf(seededRandom(seed), vocabSize);
  const first = ids(shared);
  return Array.from({ length: count }, () => [...first, ...ids(length - shared)]);
};

export const supervised = (sequences) =>
  sequences.map((ids) => ({
    tokens: Int32Array.from(ids.slice(0, -1)),
    lossFnInputs: { target_tokens: { data: Int32Array.from(ids.slice(1)) } },
  }));

/** Tokens that remain when every common prefix is counted once. */
export const distinctTokens = (sequences) => {
  const sorted = sequences
    .map((ids) => Array.from(ids))
    .sort((a, b) => {
      for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] - b[i];
      return a.length - b.length;
    });
  return sorted.reduce((sum, ids, index) => {
    const before = sorted[index - 1] ?? [];
    let common = 0;
    while (common < ids.length && ids[common] === before[common]) common++;
    return sum + ids.length - common;
  }, 0);
};
