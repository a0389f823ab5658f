/** Combinations of the levels of several factors: all, or a small set with every pair of levels (pairwise testing). */

type Factors = Readonly<Record<string, readonly unknown[]>>;

/** One level of each factor. */
export type Combination<F extends Factors> = { readonly [K in keyof F]: F[K][number] };

/** The full product; the last factor changes fastest. */
export const allCombinations = <F extends Factors>(factors: F): Combination<F>[] =>
  Object.entries(factors).reduce<Record<string, unknown>[]>(
    (combinations, [name, levels]) =>
      combinations.flatMap((each) => levels.map((level) => ({ ...each, [name]: level }))),
    [{}],
  ) as Combination<F>[];

/** A small set of combinations with each pair of levels of two factors at least once; greedy and deterministic. */
export const pairwise = <F extends Factors>(factors: F): Combination<F>[] => {
  const levels = Object.values(factors);
  const missing = new Set<string>();
  const key = (a: number, i: number, b: number, j: number): string => `${a}.${i} ${b}.${j}`;
  levels.forEach((left, a) => {
    for (let b = a + 1; b < levels.length; b++) {
      for (let i = 0; i < left.length; i++) for (let j = 0; j < levels[b]!.length; j++) missing.add(key(a, i, b, j));
    }
  });
  const combinations: number[][] = [];
  while (missing.size > 0) {
    // Starts with a missing pair; each other factor gets the level that completes the most missing pairs.
    const [first] = missing;
    const chosen = new Map(first!.split(" ").map((part) => part.split(".").map(Number) as [number, number]));
    const gain = (factor: number, level: number): number => {
      let pairs = 0;
      for (const [other, own] of chosen) {
        const pair = factor < other ? key(factor, level, other, own) : key(other, own, factor, level);
        if (missing.has(pair)) pairs++;
      }
      return pairs;
    };
    levels.forEach((own, factor) => {
      if (chosen.has(factor)) return;
      // Ties go to a level that is used late in the list, so that all levels are used about equally often.
      const order = own.map((_, i) => (i + combinations.length) % own.length);
      chosen.set(
        factor,
        order.reduce((best, level) => (gain(factor, level) > gain(factor, best) ? level : best)),
      );
    });
    const row = levels.map((_, factor) => chosen.get(factor)!);
    row.forEach((i, a) => {
      for (let b = a + 1; b < row.length; b++) missing.delete(key(a, i, b, row[b]!));
    });
    combinations.push(row);
  }
  const names = Object.keys(factors);
  return combinations.map((row) =>
    Object.fromEntries(row.map((level, factor) => [names[factor]!, levels[factor]![level]])),
  ) as Combination<F>[];
};
