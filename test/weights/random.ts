/** A seeded generator (mulberry32): the drill must give the same 500 files on every machine. */
import { random } from "../../packages/server/src/testing/random.ts";

export interface Random {
  /** A whole number from 0 up to, but not including, `below`. */
  integer(below: number): number;
  pick<T>(list: readonly T[]): T;
  bytes(count: number): Uint8Array;
  /** Roughly normal, of unit variance. */
  normal(): number;
}

export function seededRandom(seed: number): Random {
  const next = random(seed);
  const integer = (below: number) => Math.floor(next() * below);
  return {
    integer,
    pick: (list) => list[integer(list.length)] as never,
    bytes: (count) => Uint8Array.from({ length: count }, () => integer(256)),
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  };
}
