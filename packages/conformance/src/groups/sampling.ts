/** Sampling: seeds, limits and stops take effect, and log-probs are the model's. */
import { type SamplingClient, type SamplingParamsInput, tokenizerForModel } from "@tinklet/sdk";
import { group } from "../case.ts";
import { allClose, equal, fail, holds, notOffered } from "../checks.ts";
import { type Context, prompt } from "../context.ts";
import { datumOf, lesson, score, sum, tokensOf } from "../data.ts";

const start = tokensOf(21, 8);

async function draw(sampler: SamplingClient, samplingParams: SamplingParamsInput, numSamples = 1, from = start) {
  return (await sampler.sample(prompt(from), { numSamples, samplingParams })).sequences;
}

/** First tokens of many samples, requested 64 at a time. */
async function firstTokens(sampler: SamplingClient, params: SamplingParamsInput, count: number): Promise<number[]> {
  const tokens: number[] = [];
  for (let seed = 1000; tokens.length < count; seed += 64) {
    for (const sequence of await draw(sampler, { ...params, maxTokens: 1, seed }, 64)) tokens.push(sequence.tokens[0]!);
  }
  return tokens;
}

/** The most likely next tokens of the prompt, most likely first, from the log-probs of drawn samples. */
async function ranking(sampler: SamplingClient): Promise<[token: number, logprob: number][]> {
  const seen = new Map<number, number>();
  for (const seed of [1, 100, 200, 300]) {
    for (const { tokens, logprobs } of await draw(sampler, { maxTokens: 1, seed }, 64))
      seen.set(tokens[0]!, logprobs![0]!);
  }
  return [...seen].sort(([, x], [, y]) => y - x);
}

/** The model's log-probs of a continuation, from a forward pass. */
async function forced(context: Context, tokens: readonly number[], from = start): Promise<number[]> {
  return (await score(await context.trainer(), [...from, ...tokens])).slice(from.length - 1);
}

const meanDifference = (x: readonly number[], y: readonly number[]) =>
  x.length === y.length ? sum(x.map((value, i) => Math.abs(value - y[i]!))) / x.length : Number.POSITIVE_INFINITY;

/** A token for the stop cases: its first occurrence in a greedy sample is after the first token. */
function stopToken(tokens: readonly number[]): { token: number; at: number } {
  const at = tokens.findIndex((token, i) => i >= 1 && !tokens.slice(0, i).includes(token));
  return at < 0 ? { token: tokens[0]!, at: 0 } : { token: tokens[at]!, at };
}

export const sampling = group("sampling", "seeds, limits and stops take effect, and log-probs are the model's", [
  [
    "count",
    "reinforcement learning samples groups",
    "num_samples sequences are returned",
    async (context) => equal((await draw(await context.baseSampler(), { maxTokens: 2 }, 5)).length, 5, "sequences"),
  ],
  [
    "max-tokens",
    "an ignored limit costs money and context",
    "at most max_tokens tokens, and stop_reason length when the limit is reached",
    async (context) => {
      const sampler = await context.baseSampler();
      for (const maxTokens of [1, 7]) {
        for (const { tokens, stopReason } of await draw(sampler, { maxTokens, seed: 3 }, 4)) {
          holds(tokens.length >= 1 && tokens.length <= maxTokens, "tokens", `1 to ${maxTokens}`, tokens.length);
          if (stopReason === "length") equal(tokens.length, maxTokens, "tokens of a sample that ended by length");
        }
      }
    },
  ],
  [
    "seed",
    "users reproduce samples for debugging",
    "the same seed gives the same tokens",
    async (context) => {
      const sampler = await context.baseSampler();
      const once = () => draw(sampler, { maxTokens: 16, seed: 42 }, 2);
      const [x, y] = [await once(), await once()];
      equal(
        y.map(({ tokens }) => tokens),
        x.map(({ tokens }) => tokens),
        "tokens with the same seed",
      );
    },
  ],
  [
    "other-seeds",
    "if the seed is fixed by the server, all rollouts are identical",
    "different seeds give different tokens",
    async (context) => {
      const sampler = await context.baseSampler();
      const texts = new Set<string>();
      for (const seed of [1, 2, 3, 4]) {
        texts.add(String((await draw(sampler, { maxTokens: 24, seed, temperature: 1 }))[0]!.tokens));
      }
      holds(texts.size > 1, "samples with four seeds", "at least two different samples", [...texts]);
    },
  ],
  [
    "samples-differ",
    "a group of identical samples has zero advantages",
    "the samples of one request are drawn independently",
    async (context) => {
      const all = await draw(await context.baseSampler(), { maxTokens: 24, seed: 9 }, 6);
      const texts = new Set(all.map(({ tokens }) => String(tokens)));
      holds(texts.size > 1, "six samples of one request", "at least two different samples", [...texts]);
    },
  ],
  [
    "no-seed",
    "calls without a seed should give different samples",
    "without a seed each request uses a random one",
    async (context) => {
      const sampler = await context.baseSampler();
      const texts = new Set<string>();
      for (let i = 0; i < 4; i++) texts.add(String((await draw(sampler, { maxTokens: 24 }))[0]!.tokens));
      holds(texts.size > 1, "four samples without a seed", "at least two different samples", [...texts]);
    },
  ],
  [
    "greedy",
    "evaluations at temperature 0 must not be random",
    "temperature 0 always selects the most likely token",
    async (context) => {
      const sampler = await context.baseSampler();
      const [x] = await draw(sampler, { maxTokens: 10, temperature: 0, seed: 1 });
      const [y] = await draw(sampler, { maxTokens: 10, temperature: 0, seed: 2 });
      equal(y!.tokens, x!.tokens, "two greedy samples");
      const [best] = await ranking(sampler);
      const first = x!.logprobs![0]!;
      holds(
        first >= best![1] - 0.02,
        "log-prob of the greedy token",
        `at least ${best![1]}, the best of the sampled tokens`,
        first,
      );
    },
  ],
  [
    "top-k-one",
    "top_k 1 is equivalent to greedy sampling",
    "top_k 1 gives the greedy tokens",
    async (context) => {
      const sampler = await context.baseSampler();
      const [greedy] = await draw(sampler, { maxTokens: 8, temperature: 0 });
      const [limited] = await draw(sampler, { maxTokens: 8, topK: 1, seed: 4 });
      equal(limited!.tokens, greedy!.tokens, "tokens with top_k 1");
    },
  ],
  [
    "top-k",
    "an ignored top_k lets unlikely tokens through",
    "with top_k 3 only the three most likely tokens are drawn",
    async (context) => {
      const sampler = await context.baseSampler();
      const ranked = await ranking(sampler);
      const floor = ranked[2]?.[1] ?? Number.NEGATIVE_INFINITY;
      const known = new Map(ranked);
      const drawn = new Set(await firstTokens(sampler, { topK: 3 }, 128));
      holds(drawn.size <= 3, "distinct tokens with top_k 3", "at most 3", [...drawn]);
      for (const token of drawn) {
        const logprob = known.get(token) ?? Number.NEGATIVE_INFINITY;
        holds(logprob >= floor - 0.02, `log-prob of token ${token}, drawn with top_k 3`, `at least ${floor}`, logprob);
      }
      if (ranked.length > 1) holds(drawn.size > 1, "distinct tokens with top_k 3", "more than one", [...drawn]);
    },
  ],
  [
    "top-p",
    "users exclude unlikely tokens with nucleus sampling",
    "with top_p only the smallest set of most likely tokens with total probability p is drawn",
    async (context) => {
      const sampler = await context.baseSampler();
      const ranked = await ranking(sampler);
      // Between the first two cumulative probabilities, so that rounding cannot change the set.
      const [one, two] = [Math.exp(ranked[0]![1]), Math.exp(ranked[1]?.[1] ?? Number.NEGATIVE_INFINITY)];
      const drawn = new Set(await firstTokens(sampler, { topP: one + two / 2 }, 128));
      const allowed = ranked.slice(0, 2).map(([token]) => token);
      for (const token of drawn) holds(allowed.includes(token), "a token drawn with top_p", `one of ${allowed}`, token);
    },
  ],
  [
    "top-p-tiny",
    "the most likely token is always kept",
    "a top_p below the most likely token's probability is greedy",
    async (context) => {
      const sampler = await context.baseSampler();
      const [greedy] = await draw(sampler, { maxTokens: 6, temperature: 0 });
      const [limited] = await draw(sampler, { maxTokens: 6, topP: 1e-4, seed: 8 });
      equal(limited!.tokens, greedy!.tokens, "tokens with top_p 1e-4");
    },
  ],
  [
    "stop-tokens",
    "a turn ends at a token; without the stop the model continues",
    "generation ends at a stop token, which is included, with stop_reason stop",
    async (context) => {
      const sampler = await context.baseSampler();
      const [free] = await draw(sampler, { maxTokens: 12, seed: 77 });
      const { token, at } = stopToken(free!.tokens);
      const [stopped] = await draw(sampler, { maxTokens: 12, seed: 77, stop: [token] });
      equal(stopped!.tokens, free!.tokens.slice(0, at + 1), `tokens with stop [${token}]`);
      equal(stopped!.stopReason, "stop", "stop_reason");
    },
  ],
  [
    "stop-strings",
    "recipes stop at strings such as a closing tag",
    "generation ends once the text contains a stop string",
    async (context) => {
      const trainer = await context.trainer();
      const { modelData, modelName } = await trainer.getInfo();
      const name = modelData.modelName ?? modelName ?? context.baseModel;
      const tokenizer = await tokenizerForModel({ modelName: name, tokenizerId: modelData.tokenizerId }).catch(
        (error: Error) => notOffered(`the model's tokenizer could not be loaded: ${error.message}`),
      );
      const sampler = await context.baseSampler();
      for (let seed = 1; seed < 30; seed++) {
        const [free] = await draw(sampler, { maxTokens: 12, seed });
        const texts = free!.tokens.map((_, i) => tokenizer.decode(free!.tokens.slice(0, i + 1)));
        const at = texts.findIndex(
          (sofar, i) => i > 0 && /[A-Za-z0-9]$/.test(sofar) && !texts[i - 1]!.includes(sofar.slice(-1)),
        );
        if (at < 0) continue;
        const [stopped] = await draw(sampler, { maxTokens: 12, seed, stop: [texts[at]!.slice(-1)] });
        equal(
          stopped!.tokens,
          free!.tokens.slice(0, at + 1),
          `tokens with stop ${JSON.stringify(texts[at]!.slice(-1))}`,
        );
        equal(stopped!.stopReason, "stop", "stop_reason");
        return;
      }
      notOffered("no sample of this model contained a letter to use as a stop string");
    },
  ],
  [
    "log-probs-per-token",
    "training on samples requires one log-prob per token",
    "there is one log-prob per token, at most 0",
    async (context) => {
      for (const { tokens, logprobs } of await draw(await context.baseSampler(), { maxTokens: 8, seed: 5 }, 3)) {
        equal(logprobs?.length, tokens.length, "log-probs of a sample");
        for (const value of logprobs!) holds(value <= 1e-6, "a log-prob", "at most 0", value);
      }
    },
  ],
  [
    "log-probs-equal-forward",
    "importance ratios are wrong if sampler and trainer differ",
    "a sample's log-probs equal those of a forward pass, up to floating-point precision",
    async (context) => {
      const [sample] = await draw(await context.baseSampler(), { maxTokens: 12, seed: 31 });
      const difference = meanDifference(sample!.logprobs!, await forced(context, sample!.tokens));
      holds(difference < 0.05, "mean difference between sampled and forward log-probs", "below 0.05", difference);
    },
  ],
  [
    "log-probs-untempered",
    "importance ratios need the untempered distribution",
    "log-probs are of the untempered, unfiltered distribution at any temperature",
    async (context) => {
      const [sample] = await draw(await context.baseSampler(), { maxTokens: 12, seed: 31, temperature: 0.4, topK: 5 });
      const difference = meanDifference(sample!.logprobs!, await forced(context, sample!.tokens));
      holds(difference < 0.05, "mean difference at temperature 0.4", "below 0.05", difference);
    },
  ],
  [
    "frequencies",
    "samples must follow the reported probabilities",
    "at temperature 1 the frequency of a token is its probability",
    async (context) => {
      const sampler = await context.baseSampler();
      const ranked = await ranking(sampler);
      const [best, logprob] = ranked[0]!;
      const count = 384;
      const tokens = await firstTokens(sampler, {}, count);
      const share = tokens.filter((token) => token === best).length / count;
      const p = Math.exp(logprob);
      const sigma = Math.sqrt((p * (1 - p)) / count);
      holds(Math.abs(share - p) < 5 * sigma + 0.01, "frequency of the most likely token", `${p} ± ${5 * sigma}`, share);
    },
  ],
  [
    "temperature",
    "the temperature controls exploration",
    "the frequency of a token is its normalised p^(1/T)",
    async (context) => {
      const sampler = await context.baseSampler();
      const ranked = await ranking(sampler);
      const best = ranked[0]![0];
      const share = async (temperature: number) => {
        const tokens = await firstTokens(sampler, { temperature }, 256);
        return tokens.filter((token) => token === best).length / tokens.length;
      };
      const [cold, hot] = [await share(0.3), await share(3)];
      const powers = ranked.map(([, logprob]) => Math.exp((logprob - ranked[0]![1]) / 0.3));
      const expected = 1 / sum(powers);
      holds(Math.abs(cold - expected) < 0.17, "frequency of the most likely token at temperature 0.3", expected, cold);
      holds(hot < cold || cold > 0.98, "frequency at temperature 3", `less than ${cold}`, hot);
    },
  ],
  [
    "prompt-log-probs",
    "evaluations score given text",
    "one value per prompt token, null for the first, equal to those of a forward pass",
    async (context) => {
      const sampler = await context.baseSampler();
      const { promptLogprobs } = await sampler.sample(prompt(lesson), {
        samplingParams: { maxTokens: 1 },
        includePromptLogprobs: true,
      });
      equal(promptLogprobs?.length, lesson.length, "number of prompt log-probs");
      equal(promptLogprobs![0], null, "the first prompt log-prob");
      const difference = meanDifference(
        promptLogprobs!.slice(1).map((value) => value ?? Number.NaN),
        await score(await context.trainer()),
      );
      holds(difference < 0.05, "mean difference between prompt and forward log-probs", "below 0.05", difference);
    },
  ],
  [
    "no-prompt-log-probs",
    "prompt log-probs cost time",
    "prompt log-probs are returned only if requested",
    async (context) => {
      const response = await (await context.baseSampler()).sample(prompt(start), { samplingParams: { maxTokens: 1 } });
      equal(response.promptLogprobs ?? null, null, "prompt log-probs that were not requested");
    },
  ],
  [
    "top-k-prompt-log-probs",
    "distillation needs the most likely tokens at each position",
    "k (token, log-prob) pairs per position, most likely first, null for the first position",
    async (context) => {
      const sampler = await context.baseSampler();
      const k = 5;
      const response = await sampler.sample(prompt(lesson), {
        samplingParams: { maxTokens: 1 },
        includePromptLogprobs: true,
        topkPromptLogprobs: k,
      });
      const table = response.topkPromptLogprobs ?? fail("the response", "topk_prompt_logprobs", "none");
      equal(table.length, lesson.length, "number of positions");
      equal(table[0], null, "the first position");
      for (let i = 1; i < lesson.length; i++) {
        const row = table[i] ?? fail(`position ${i}`, `${k} pairs`, "nothing");
        equal(row.length, k, `pairs at position ${i}`);
        const logprobs = row.map(([, logprob]) => logprob);
        equal(
          [...logprobs].sort((x, y) => y - x),
          logprobs,
          `order of log-probs at position ${i}`,
        );
        const ownEntry = row.find(([token]) => token === lesson[i]);
        if (ownEntry !== undefined)
          allClose([ownEntry[1]], [response.promptLogprobs![i]!], 0.02, `the prompt's token at ${i}`);
        else holds(response.promptLogprobs![i]! <= logprobs.at(-1)! + 0.02, `log-prob at ${i}`, "below the top k", row);
      }
    },
  ],
  [
    "compute-log-probs",
    "the SDK scores text with it",
    "compute_logprobs returns the prompt log-probs of a one-token sample",
    async (context) => {
      const sampler = await context.baseSampler();
      const values = await sampler.computeLogprobs(prompt(lesson));
      equal(values.length, lesson.length, "number of log-probs");
      equal(values[0], null, "the first log-prob");
    },
  ],
  [
    "prompt-chunks",
    "prompts are composed of several chunks",
    "several text chunks are concatenated",
    async (context) => {
      const sampler = await context.baseSampler();
      const samplingParams = { maxTokens: 6, temperature: 0 };
      const [whole] = (await sampler.sample(prompt(start), { samplingParams })).sequences;
      const parts = prompt(start.slice(0, 3)).append({ type: "encoded_text", tokens: start.slice(3) });
      const [split] = (await sampler.sample(parts, { samplingParams })).sequences;
      equal(split!.tokens, whole!.tokens, "tokens after a prompt in two chunks");
    },
  ],
  [
    "concurrent",
    "batching must not change samples",
    "concurrent requests give the same samples as separate ones",
    async (context) => {
      const sampler = await context.baseSampler();
      const prompts = [4, 9, 17, 6].map((length, i) => tokensOf(50 + i, length));
      const one = async (tokens: number[], i: number) =>
        (await draw(sampler, { maxTokens: 8, temperature: 0, seed: i }, 1, tokens))[0]!;
      const together = await Promise.all(prompts.map(one));
      for (const [i, tokens] of prompts.entries()) {
        equal(together[i]!.tokens, (await one(tokens, i)).tokens, `tokens of request ${i} run concurrently`);
      }
    },
  ],
  [
    "trained-sampler",
    "samples must reflect the training",
    "a sampler of trained weights has a higher log-prob of the training data",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const trainer = await context.trainer();
      for (let i = 0; i < 25; i++) await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
      const sampler = await trainer.saveWeightsAndGetSamplingClient();
      const trainedLogprob = sum((await sampler.computeLogprobs(prompt(lesson))).slice(1).map(Number));
      const base = sum((await (await context.baseSampler()).computeLogprobs(prompt(lesson))).slice(1).map(Number));
      holds(trainedLogprob > base + 2, "log-prob of the lesson after training", `above ${base + 2}`, trainedLogprob);
    },
  ],
]);
