// The two recipes that the bundled model is measured with: supervised fine-tuning on the pirate dataset, and policy-gradient
// training on two-digit addition. Both talk to the engine directly, so that what is timed is the model and nothing else.
import { readFileSync } from "node:fs";
import { seededRandom } from "@tinklet/wire/entropy";

const IM_END = 2;

export const readMessages = (path) =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).messages);

/** Wall and CPU seconds (all threads) since it was started. */
const stopwatch = () => {
  const wall = performance.now();
  const cpu = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(cpu);
    return { seconds: (performance.now() - wall) / 1000, cpuSeconds: (user + system) / 1e6 };
  };
};

export const shuffled = (items, random) => {
  const copy = [...items];
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [copy[i], copy[j]] = [copy[j], copy[i]];
  }
  return copy;
};

export const encodePair = async (engine, messages) => {
  const prompt = await engine.tokenizer.applyChatTemplate(messages.slice(0, -1), { addGenerationPrompt: true });
  const answer = await engine.tokenizer.encode(messages.at(-1).content, { addSpecialTokens: false });
  return { prompt, answer: [...answer, IM_END] };
};

/** Cross entropy on the answer alone. */
export const supervised = ({ prompt, answer }) => {
  const all = [...prompt, ...answer];
  const weights = all.slice(1).map((_, i) => (i >= prompt.length - 1 ? 1 : 0));
  return {
    tokens: all.slice(0, -1),
    lossFnInputs: { target_tokens: { data: all.slice(1) }, weights: { data: weights } },
  };
};

const lossPerToken = async (engine, adapter, data) => {
  let sum = 0;
  let count = 0;
  for (let at = 0; at < data.length; at += 32) {
    const batch = data.slice(at, at + 32);
    const { metrics } = await engine.forward(adapter, { data: batch, lossFn: "cross_entropy" });
    sum += metrics["loss:sum"];
    count += batch.flatMap((datum) => datum.lossFnInputs.weights.data).reduce((a, b) => a + b, 0);
  }
  return sum / count;
};

/** Mean probability of the exact answer and its end: the success rate at temperature 1, without sampling noise. */
const chance = async (engine, adapter, pairs) => {
  let total = 0;
  for (let at = 0; at < pairs.length; at += 50) {
    const batch = pairs.slice(at, at + 50);
    const data = batch.map(supervised);
    const { lossFnOutputs } = await engine.forward(adapter, { data, lossFn: "cross_entropy" });
    lossFnOutputs.forEach(({ logprobs }, i) => {
      const from = batch[i].prompt.length - 1;
      total += Math.exp(logprobs.data.slice(from).reduce((a, b) => a + b, 0));
    });
  }
  return total / pairs.length;
};

/** Perplexity of plain texts, per token. */
export const perplexity = async (engine, adapter, texts) => {
  let sum = 0;
  let count = 0;
  for (const text of texts) {
    const ids = [...(await engine.tokenizer.encode(text, { addSpecialTokens: false })), 0];
    const weights = { data: ids.slice(1).map(() => 1) };
    const datum = { tokens: ids.slice(0, -1), lossFnInputs: { target_tokens: { data: ids.slice(1) }, weights } };
    const { metrics } = await engine.forward(adapter, { data: [datum], lossFn: "cross_entropy" });
    sum += metrics["loss:sum"];
    count += ids.length - 1;
  }
  return Math.exp(sum / count);
};

/** LoRA rank 16 on a chat dataset, with the settings of `tinklet quickstart`. Returns held-out loss before and after, and the seconds that training took. */
export const fineTune = async (engine, { train, heldout, seed, epochs = 1, batchSize = 8, learningRate = 2e-3 }) => {
  const { adapterId } = await engine.createAdapter({ rank: 16, seed });
  const encode = async (path) => Promise.all(readMessages(path).map((messages) => encodePair(engine, messages)));
  const trainData = (await encode(train)).map(supervised);
  const heldoutData = (await encode(heldout)).map(supervised);
  const before = await lossPerToken(engine, adapterId, heldoutData);
  const random = seededRandom(seed);
  const elapsed = stopwatch();
  for (let epoch = 0; epoch < epochs; epoch++) {
    const order = shuffled(trainData, random);
    for (let at = 0; at < order.length; at += batchSize) {
      const pass = engine.forwardBackward(adapterId, {
        data: order.slice(at, at + batchSize),
        lossFn: "cross_entropy",
      });
      const progress = (epoch + at / order.length) / epochs; // the rate falls evenly to 0
      const step = engine.optimStep(adapterId, { learningRate: learningRate * (1 - progress) });
      await Promise.all([pass, step]);
    }
  }
  const spent = elapsed();
  return { adapterId, before, after: await lossPerToken(engine, adapterId, heldoutData), ...spent };
};

/**
 * REINFORCE with a group baseline on questions with one right answer, with the settings of `tinklet quickstart --rl`. Groups
 * that agree carry no signal and are left out. Returns the success rate before and after, rewards by step, and the seconds
 * that sampling and training took together.
 */
export const climb = async (
  engine,
  { train, heldout, seed, steps = 20, groups = 48, groupSize = 8, learningRate = 1.5e-3 },
) => {
  const { adapterId } = await engine.createAdapter({ rank: 16, seed });
  const encode = async (path) => Promise.all(readMessages(path).map((messages) => encodePair(engine, messages)));
  const questions = await encode(train);
  const asked = await encode(heldout);
  const before = await chance(engine, adapterId, asked);
  const random = seededRandom(seed);
  const rewards = [];
  const elapsed = stopwatch();
  for (let step = 0; step < steps; step++) {
    const chosen = Array.from({ length: groups }, () => questions[Math.floor(random() * questions.length)]);
    const params = { maxTokens: 6, temperature: 1, stop: [IM_END, 0] };
    const sampled = await Promise.all(
      chosen.map(({ prompt }, i) =>
        engine.sample({
          prompt,
          adapter: adapterId,
          numSamples: groupSize,
          params: { ...params, seed: seed * 1_000_003 + step * 10_007 + i * 101 },
        }),
      ),
    );
    const data = [];
    let right = 0;
    sampled.forEach(({ sequences }, i) => {
      const { prompt, answer } = chosen[i];
      const won = sequences.map(({ tokens }) => (answer.join() === tokens.join() ? 1 : 0));
      const mean = won.reduce((a, b) => a + b, 0) / groupSize;
      right += mean;
      if (mean === 0 || mean === 1) return;
      sequences.forEach(({ tokens, logprobs }, j) => {
        const all = [...prompt, ...tokens];
        const ahead = new Array(prompt.length - 1).fill(0);
        const every = (values) => ({ data: [...ahead, ...values] });
        data.push({
          tokens: all.slice(0, -1),
          lossFnInputs: {
            target_tokens: { data: all.slice(1) },
            logprobs: every(logprobs),
            advantages: every(Array.from(tokens, () => won[j] - mean)),
          },
        });
      });
    });
    rewards.push(right / groups);
    if (data.length === 0) continue;
    const pass = engine.forwardBackward(adapterId, { data, lossFn: "importance_sampling" });
    await Promise.all([pass, engine.optimStep(adapterId, { learningRate })]);
  }
  const spent = elapsed();
  return { adapterId, before, after: await chance(engine, adapterId, asked), rewards, ...spent };
};
