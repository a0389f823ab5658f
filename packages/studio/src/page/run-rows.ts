/** Parses the rows of run files, with the field names of both cookbooks. Fields of the wrong type are skipped. */
import type { JsonValue, RunFileRow } from "@tinklet/wire";

export const numberOf = (value: JsonValue | undefined): number => (typeof value === "number" ? value : Number.NaN);

export const numbersOf = (value: JsonValue | undefined): readonly number[] =>
  Array.isArray(value) ? value.map((one) => numberOf(one)) : [];

const isRow = (value: unknown): value is RunFileRow =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const rowsOf = (value: JsonValue | undefined): readonly RunFileRow[] =>
  Array.isArray(value) ? value.filter((one) => isRow(one)) : [];

/** The fields of an object as pairs of name and text. */
export const textsOf = (value: JsonValue | undefined): [string, string][] =>
  isRow(value)
    ? Object.entries(value).map(([key, one]) => [key, typeof one === "string" ? one : JSON.stringify(one)])
    : [];

/** One rollout from a summary file. */
export interface Rollout {
  readonly group: number;
  readonly reward: number;
  /** The reward minus the mean reward of the group; 0 if there is no reward. */
  readonly advantage: number;
  readonly tags: string;
  readonly steps: readonly RunFileRow[];
  readonly row: RunFileRow;
}

export function rolloutOf(row: RunFileRow): Rollout {
  const reward = numberOf(row["total_reward"] ?? row["reward"]);
  const tags = Array.isArray(row["tags"]) ? row["tags"].join(", ") : "";
  const group = numberOf(row["group_idx"] ?? row["group"]);
  return { group, reward, advantage: 0, tags, steps: rowsOf(row["steps"]), row };
}

/** Adds the advantage within the group to each rollout. */
export function withAdvantages(rows: readonly Rollout[]): Rollout[] {
  const sums = new Map<number, { sum: number; count: number }>();
  for (const { group, reward } of rows) {
    const one = sums.get(group) ?? { sum: 0, count: 0 };
    if (Number.isFinite(reward)) sums.set(group, { sum: one.sum + reward, count: one.count + 1 });
  }
  return rows.map((row) => {
    const { sum, count } = sums.get(row.group) ?? { sum: 0, count: 0 };
    const isKnown = Number.isFinite(row.group) && Number.isFinite(row.reward) && count > 0;
    return { ...row, advantage: isKnown ? row.reward - sum / count : 0 };
  });
}

/** A question with the answer that was sampled for it. */
export interface Answered {
  readonly group: number;
  readonly question: string;
  readonly reward: number;
  /** The answer as the environment logged it. */
  readonly text: string;
  /** The answer's tokens, if they were recorded. */
  readonly tokens: readonly number[];
}

/** Names under which environments log their question. */
const questionNames = ["problem", "question", "prompt", "initial_observation"];
/** Tokens that are shown of an answer. */
const maxAnswerTokens = 400;

/** The first answer of each group. */
export function answersOf(rows: readonly RunFileRow[]): Answered[] {
  const found = new Map<number | string, Answered>();
  for (const [i, row] of rows.entries()) {
    const { group, reward, steps } = rolloutOf(row);
    const key = Number.isNaN(group) ? `row ${i}` : group;
    if (found.has(key)) continue;
    const texts = new Map([
      ...textsOf(row).filter(([, value]) => value.length > 0),
      ...steps.flatMap((step) => textsOf(step["logs"])),
    ]);
    const firstOf = (names: readonly string[]) => names.flatMap((name) => texts.get(name) ?? [])[0];
    const logged = steps.flatMap((step) => textsOf(step["logs"])).filter(([name]) => !questionNames.includes(name));
    found.set(key, {
      group,
      question: firstOf(["group_name", ...questionNames]) ?? "",
      reward,
      text:
        firstOf(["response", "completion", "text"]) ?? logged.map(([name, value]) => `${name}: ${value}`).join("\n"),
      tokens: steps.flatMap((step) => numbersOf(step["ac_tokens"])).slice(0, maxAnswerTokens),
    });
  }
  return [...found.values()];
}

/** Answers to the same question, where both have it; otherwise in their order. */
export function pairAnswers(
  first: readonly Answered[],
  last: readonly Answered[],
): (readonly [before: Answered, after: Answered])[] {
  const byQuestion = new Map(last.map((one) => [one.question, one]));
  const same = first.flatMap((one) => {
    const other = one.question === "" ? undefined : byQuestion.get(one.question);
    return other === undefined ? [] : [[one, other] as const];
  });
  if (same.length > 0) return same;
  return first.slice(0, last.length).map((one, i) => [one, last[i]!] as const);
}

/** The first and the last file of the same kind: evaluations, which repeat their questions, before training steps. */
export function firstAndLast(files: readonly string[]): readonly [first: string, last: string] | undefined {
  const isTraining = (file: string) => /(^|\/)train_/.test(file);
  for (const some of [files.filter((file) => !isTraining(file)), files.filter(isTraining)]) {
    const name = some.at(-1)?.split("/").at(-1);
    const same = some.filter((file) => file.split("/").at(-1) === name);
    if (same.length > 1) return [same[0]!, same.at(-1)!];
  }
  return undefined;
}

const bars = 12;

/** Histogram of rewards with bins of equal width. */
export function histogram(
  rewards: readonly number[],
): { readonly from: number; readonly to: number; readonly count: number }[] {
  const finite = rewards.filter(Number.isFinite);
  if (finite.length === 0) return [];
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const reward of finite) {
    low = Math.min(low, reward);
    high = Math.max(high, reward);
  }
  const width = (high - low) / bars || 1;
  const count = high === low ? 1 : bars;
  const found = Array.from({ length: count }, (_, i) => ({
    from: low + i * width,
    to: low + (i + 1) * width,
    count: 0,
  }));
  for (const reward of finite) found[Math.min(count - 1, Math.floor((reward - low) / width))]!.count++;
  return found;
}

/** A phase of a training step: from its first start to its last end, in seconds of one clock. */
export interface Span {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  /** Number of occurrences; they may overlap, for example for concurrent samples. */
  readonly count: number;
}

/** The phases of a step, one per name, in order of their start. */
export function spansOf(row: RunFileRow): Span[] {
  const found = new Map<string, Span>();
  for (const { name, wall_start: start, wall_end: end } of rowsOf(row["spans"])) {
    if (typeof name !== "string" || typeof start !== "number" || typeof end !== "number" || !(end >= start)) continue;
    const known = found.get(name) ?? { name, start, end, count: 0 };
    const count = known.count + 1;
    found.set(name, { name, start: Math.min(known.start, start), end: Math.max(known.end, end), count });
  }
  return [...found.values()].sort((a, b) => a.start - b.start);
}
