/** A seeded generator (mulberry32): the drill must give the same 500 files on every machine. */

export interface Random {
  /** A whole number from 0 up to, but not including, `below`. */
  integer(below: number): number;
  pick<T>(list: readonly T[]): T;
  bytes(count: number): Uint8Array;
  /** Roughly normal, of unit variance. */
  normal(): number;
}

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (below: number) => Math.floor(next() * below);
  return {
    integer,
    pick: (list) => list[integer(list.length)] as never,
    bytes: (count) => Uint8Array.from({ length: count }, () => integer(256)),
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  };
}
