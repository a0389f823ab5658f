/**
 * Self-play: a game of stones against itself. Two players take one to three stones in turns; the one who takes the last stone wins. Random
 * games show the rules; then the model plays itself, and the winner of each game gets 1 and the loser -1.
 */
import {
  defineRecipe,
  type EnvGroup,
  type Game,
  messageEnvs,
  prepareExamples,
  rolloutGroups,
  runReinforcement,
  runSupervised,
  seededRandom,
  selfPlay,
} from "@tinklet/cookbook";

const mostStones = 9;
const tell = (stones: number) => ({ role: "user", content: `${stones} stones. How many do you take?` });
const isMove = (move: number, stones: number) => Number.isInteger(move) && move >= 1 && move <= Math.min(3, stones);

/** Your game goes here. */
class Stones implements Game {
  readonly players = 2;
  turn = 0;
  #stones: number;
  constructor(stones: number) {
    this.#stones = stones;
  }
  tell() {
    return [tell(this.#stones)];
  }
  move({ text }: { readonly text: string }) {
    const [mover, move] = [this.turn, Number(text.trim())];
    const outcome = (winner: number) => ({ outcome: winner === 0 ? [1, -1] : [-1, 1] });
    if (!isMove(move, this.#stones)) return outcome(1 - mover); // against the rules
    this.#stones -= move;
    if (this.#stones === 0) return outcome(mover);
    this.turn = 1 - mover;
    return {};
  }
}

export default defineRecipe({
  about: "self-play: a game of stones against itself",
  metric: "share of games won against a player who moves at random, after the rules and after self-play",
  async run(task) {
    const { chat, tokenizer, seed } = task;
    const conversation = { chat, tokenizer, maxTokens: 3 };
    /** Against random moves; the model begins. */
    const match = (stones: number): EnvGroup =>
      messageEnvs(`${stones} stones`, conversation, ({ index, seed: own }) => {
        const random = seededRandom(own + index);
        let left = stones;
        return {
          initialMessages: () => [tell(left)],
          step({ text }) {
            const move = Number(text.trim());
            if (!isMove(move, left)) return { reward: 0, done: true };
            left -= move;
            if (left === 0) return { reward: 1, done: true };
            left -= 1 + Math.floor(random() * Math.min(3, left));
            return left === 0 ? { reward: 0, done: true } : { reward: 0, done: false, messages: [tell(left)] };
          },
        };
      });
    const piles = Array.from({ length: mostStones - 3 }, (_, i) => i + 4);
    const won = async (sampler: Parameters<typeof rolloutGroups>[1]["sampler"]) => {
      const { groups } = await rolloutGroups(piles.map(match), { sampler, groupSize: 32, seed: 5 });
      const all = groups.flatMap(({ totalRewards }) => totalRewards);
      return all.reduce((sum, reward) => sum + reward, 0) / all.length;
    };

    const random = seededRandom(seed + 1);
    const moves = Array.from({ length: 400 }, () => {
      const stones = 1 + Math.floor(random() * mostStones);
      const move = 1 + Math.floor(random() * Math.min(3, stones));
      return { messages: [tell(stones), { role: "assistant", content: String(move) }] };
    });
    const learning = { rank: 16, learningRate: task.learningRate(1e-3) };
    const data = prepareExamples(moves, tokenizer);
    const rules = runSupervised({ ...task.stage("rules"), ...learning, data, maxSteps: task.steps(50) });
    const shown = await task.follow("rules", rules);
    const before = await won(shown.sampler);
    const environments = piles.map((stones) => selfPlay(`${stones} stones`, () => new Stones(stones), conversation));
    const loop = runReinforcement({
      ...{ ...task.stage("play"), ...learning, from: shown.statePath, environments },
      ...{ steps: task.steps(14), groupsPerStep: piles.length * 2, groupSize: 16 },
    });
    const { sampler } = await task.follow("play", loop);
    const openings = [5, 6, 7].map((stones) => tell(stones).content);
    const answers = await task.compare(sampler, openings, shown.sampler);
    return { before, after: await won(sampler), games: piles.length * 32, answers };
  },
});
