/** Games that the policy plays against itself: one environment, one trajectory per player. */
import type { ChatMessage } from "@tinklet/models/chat";
import { InvalidInputError } from "@tinklet/sdk";
import { derivedSeed } from "../random.ts";
import type { Env, EnvGroup, StepResult } from "./env.ts";
import { Conversation, type ConversationOptions, type ReplyMessage } from "./message-env.ts";

/** The result of a move. */
export interface MoveResult {
  /** Of the player that moved, for the move itself: a penalty for one against the rules, for example. @defaultValue 0 */
  readonly reward?: number;
  /** Rewards of all players when the game is over; absent before. */
  readonly outcome?: readonly number[];
  readonly metrics?: Readonly<Record<string, number>>;
}

/** A game of two or more players that move in turns. */
export interface Game {
  readonly players: number;
  /** The player whose turn it is, from 0. */
  readonly turn: number;
  /** Messages for the player whose turn it is, since that player's last move. */
  tell(): readonly ChatMessage[];
  /** The move of the player whose turn it is. */
  move(reply: ReplyMessage): MoveResult;
}

/**
 * A group of games of the policy against itself.
 *
 * @param newGame - makes a game; the seed is for what is random in it.
 *
 * @example
 * ```ts
 * const group = selfPlay("nim", (seed) => new Nim(seed), { chat, tokenizer, maxTokens: 4 });
 * ```
 */
export function selfPlay(name: string, newGame: (seed: number) => Game, options: ConversationOptions): EnvGroup {
  return {
    name,
    makeEnvs: ({ size, seed }) =>
      Array.from({ length: size }, () => gameEnv(newGame(derivedSeed(seed, 0x9a)), options)),
  };
}

function gameEnv(game: Game, options: ConversationOptions): Env {
  if (!Number.isInteger(game.players) || game.players < 2)
    throw new InvalidInputError("players", `must be an integer above 1, got ${game.players}`);
  const conversations = Array.from({ length: game.players }, () => new Conversation(options));
  const at = (player: number): Conversation => {
    const own = conversations[player];
    if (own === undefined) throw new InvalidInputError("turn", `must be below ${game.players}, got ${player}`);
    return own;
  };
  const ask = () => ({ ...at(game.turn).ask(game.tell()), player: game.turn });
  return {
    initialObservation: ask,
    step(action): StepResult {
      const reply = at(game.turn).read(action);
      const { reward = 0, outcome, metrics = {} } = game.move(reply);
      const logs = { answer: reply.raw };
      if (outcome === undefined) return { reward, done: false, next: ask(), metrics, logs };
      return { reward, done: true, playerRewards: outcome, metrics, logs };
    },
  };
}
