/**
 * Several turns: the model guesses a number and gets the reply "Higher." or "Lower.". Supervised training on random guesses shows the
 * format of the game; reinforcement learning then teaches the model to use the replies.
 */
import {
  type ConversationOptions,
  defineRecipe,
  type EnvGroup,
  messageEnvs,
  prepareExamples,
  rolloutGroups,
  runReinforcement,
  runSupervised,
  seededRandom,
} from "@tinklet/cookbook";

const highest = 7;
const maxGuesses = 3; // enough for binary search
const opening = { role: "user", content: `Guess my number, 1 to ${highest}.` };
const hint = (guess: number, secret: number) => ({ role: "user", content: guess < secret ? "Higher." : "Lower." });

/** The game. Your reward goes here: 1 for the number, 0 for none, less for an answer that is not a guess. */
function game(secret: number, options: ConversationOptions): EnvGroup {
  return messageEnvs(`secret ${secret}`, { ...options, maxTokens: 3 }, () => {
    let guesses = 0;
    return {
      initialMessages: () => [opening],
      step({ text }) {
        guesses += 1;
        const guess = Number(text.trim());
        if (!Number.isInteger(guess) || guess < 1 || guess > highest)
          return { reward: -0.5, done: true, metrics: { found: 0 } };
        if (guess === secret) return { reward: 1, done: true, metrics: { found: 1, guesses } };
        if (guesses === maxGuesses) return { reward: 0, done: true, metrics: { found: 0 } };
        return { reward: 0, done: false, messages: [hint(guess, secret)] };
      },
    };
  });
}

/** Games with random guesses, which show only the format of an answer. */
function randomGames(count: number, seed: number): object[] {
  const random = seededRandom(seed);
  const draw = () => 1 + Math.floor(random() * highest);
  return Array.from({ length: count }, () => {
    const secret = draw();
    const messages: { role: string; content: string }[] = [opening];
    for (let i = 0; i < maxGuesses; i++) {
      const guess = draw();
      messages.push({ role: "assistant", content: String(guess) });
      if (guess === secret || i === maxGuesses - 1) break;
      messages.push(hint(guess, secret));
    }
    return { messages };
  });
}

export default defineRecipe({
  about: "a game of several turns: guess a number, told higher or lower",
  metric: `share of numbers found within ${maxGuesses} guesses, after the rules were shown and after playing`,
  async run(task) {
    const { chat, tokenizer, seed } = task;
    const games = Array.from({ length: highest }, (_, i) => game(i + 1, { chat, tokenizer }));
    const played = async (sampler: Parameters<typeof rolloutGroups>[1]["sampler"]) => {
      const { groups } = await rolloutGroups(games, { sampler, groupSize: 24, seed: 12345 });
      const ends = groups.flatMap(({ trajectories }) => trajectories.map(({ transitions }) => transitions.at(-1)));
      return ends.reduce((sum, end) => sum + (end?.metrics["found"] ?? 0), 0) / ends.length;
    };

    const data = prepareExamples(randomGames(320, seed), tokenizer);
    const rules = runSupervised({
      ...task.stage("rules"),
      data,
      rank: 16,
      learningRate: task.learningRate(2e-3),
      maxSteps: task.steps(40),
    });
    const shown = await task.follow("rules", rules);
    const before = await played(shown.sampler);
    const loop = runReinforcement({
      ...task.stage("play"),
      from: shown.statePath,
      environments: games,
      groupsPerStep: highest * 2,
      groupSize: 16,
      steps: task.steps(24),
      rank: 16,
      learningRate: task.learningRate(6e-4),
    });
    const { sampler } = await task.follow("play", loop);
    const first = { role: "assistant", content: "4" };
    const turns = [[opening], [opening, first, hint(4, 6)], [opening, first, hint(4, 2)]];
    const asked = turns.map((messages) => ({ kind: "chat", messages }) as const);
    const answers = await task.compare(sampler, asked, shown.sampler);
    return { before, after: await played(sampler), episodes: games.length * 24, answers };
  },
});
