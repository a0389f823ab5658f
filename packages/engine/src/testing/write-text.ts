/** Random texts of a format, without a model: every allowed token is equally likely. */
import type { Slice } from "../constrain/budget.ts";
import type { Grammar } from "../constrain/grammar.ts";

export const endlessSlice = (): Slice => ({ left: Number.POSITIVE_INFINITY });

/** A follower whose masks are computed at once. */
export function followText(grammar: Grammar, endIds: Iterable<number>) {
  const follower = grammar.follow(endIds, grammar.account());
  return {
    allowed(room: number): Int32Array {
      follower.prepare(endlessSlice());
      return follower.allowed(room);
    },
    push: (token: number): void => follower.push(token),
    get isWhole() {
      return follower.isWhole;
    },
    get isOver() {
      return follower.isOver;
    },
    get steps() {
      return follower.steps;
    },
  };
}

export interface WriteOptions {
  readonly end: number;
  readonly room: number;
  readonly random: () => number;
}

/** Writes one text to its end. */
export function writeText(grammar: Grammar, { end, room, random }: WriteOptions) {
  const text = followText(grammar, [end]);
  const ids: number[] = [];
  while (!text.isOver && ids.length < room) {
    const allowed = text.allowed(room - ids.length);
    const token = allowed[Math.floor(random() * allowed.length)]!;
    if (token === end) break;
    text.push(token);
    ids.push(token);
  }
  return { ids, isWhole: text.isWhole, steps: text.steps };
}
