/** Statistics of a data file for `inspect`: lengths, truncated and repeated examples, examples without trained tokens. */
import type { Example, Rendered } from "@tinklet/cookbook";

/** A token with its text and weight. */
export interface ShownToken {
  readonly id: number;
  readonly text: string;
  readonly weight: number;
  /** Beyond `--max-length`: truncated in training. */
  readonly cut: boolean;
}

export interface ShownExample {
  readonly line: number;
  readonly tokens: readonly ShownToken[];
}

export interface Inspection {
  readonly file: string;
  readonly examples: number;
  readonly tokens: number;
  readonly lossTokens: number;
  readonly maskedShare: number;
  readonly shortest: number;
  readonly median: number;
  readonly longest: number;
  readonly truncated: readonly number[];
  readonly dropped: readonly number[];
  /** Lines that repeat an earlier one: `[line, first]`. */
  readonly duplicates: readonly (readonly [line: number, first: number])[];
}

export function inspection(
  file: string,
  examples: readonly Example[],
  rendered: readonly Rendered[],
  maxLength: number | undefined,
): Inspection {
  const limit = maxLength ?? Number.POSITIVE_INFINITY;
  const lengths = rendered.map(({ tokens }) => tokens.length).toSorted((a, b) => a - b);
  const seen = new Map<string, number>();
  const duplicates: [number, number][] = [];
  const truncated: number[] = [];
  const dropped: number[] = [];
  let tokens = 0;
  let lossTokens = 0;
  rendered.forEach((one, at) => {
    const line = examples[at]?.line ?? at + 1;
    const key = `${one.tokens.join(",")}|${one.weights.join("")}`;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, line);
    else duplicates.push([line, first]);
    const kept = Math.min(one.tokens.length, limit);
    const weighted = one.weights.slice(1, kept).filter((weight) => weight > 0).length;
    if (one.tokens.length > limit) truncated.push(line);
    if (weighted === 0) dropped.push(line);
    tokens += kept;
    lossTokens += weighted;
  });
  return {
    file,
    examples: rendered.length,
    tokens,
    lossTokens,
    maskedShare: tokens === 0 ? 0 : 1 - lossTokens / tokens,
    shortest: lengths[0] ?? 0,
    median: lengths[Math.floor(lengths.length / 2)] ?? 0,
    longest: lengths.at(-1) ?? 0,
    truncated,
    dropped,
    duplicates,
  };
}

/** `3, 7, 9 and 12 more` */
export function someLines(lines: readonly number[], most = 8): string {
  const shown = lines.slice(0, most).join(", ");
  return lines.length > most ? `${shown} and ${lines.length - most} more` : shown;
}
