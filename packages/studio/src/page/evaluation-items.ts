/** Parses the lines of an evaluation's answers, and selects those worth looking at. Fields of the wrong type are skipped. */
import type { EvaluationScore, JsonValue, RunFileRow } from "@tinklet/wire";

/** A model's answer to one question. */
export interface ItemAnswer {
  /** `undefined` where nothing was sampled. */
  readonly text: string | undefined;
  /** Null where the score could not be read from the answer. */
  readonly scores: ReadonlyMap<string, number | null>;
  readonly isTruncated: boolean;
}

/** One question with the answers of all models. */
export interface EvaluationItem {
  readonly number: number;
  readonly task: string;
  readonly question: string;
  readonly expected: string | undefined;
  /** By model. */
  readonly answers: readonly ItemAnswer[];
}

const isRow = (value: JsonValue | undefined): value is RunFileRow =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** @param count - number of models */
export function itemOf(row: RunFileRow, count: number): EvaluationItem {
  const { item, task, question, expected, answers } = row;
  const list: readonly JsonValue[] = Array.isArray(answers) ? answers : [];
  return {
    number: typeof item === "number" ? item : Number.NaN,
    task: typeof task === "string" ? task : "",
    question: typeof question === "string" ? question : "",
    expected: typeof expected === "string" ? expected : undefined,
    answers: Array.from({ length: count }, (_, i) => answerOf(list[i])),
  };
}

function answerOf(value: JsonValue | undefined): ItemAnswer {
  const { text, scores, truncated } = isRow(value) ? value : {};
  const entries = isRow(scores) ? Object.entries(scores) : [];
  return {
    text: typeof text === "string" ? text : undefined,
    scores: new Map(
      entries.flatMap(([name, score]): [string, number | null][] =>
        typeof score === "number" || score === null ? [[name, score]] : [],
      ),
    ),
    isTruncated: truncated === true,
  };
}

export type ItemFilter = "all" | "differ" | "better" | "worse";

/**
 * Whether an item is shown.
 *
 * @param score - the score by which the models are compared
 */
export function isShown({ answers }: EvaluationItem, filter: ItemFilter, score: EvaluationScore | undefined): boolean {
  if (filter === "all" || score === undefined) return true;
  const [first, ...others] = answers.map(({ scores }) => scores.get(score.name) ?? undefined);
  if (filter === "differ") return others.some((other) => other !== first);
  // Against the first model, which is usually the base model.
  return others.some((other) => {
    if (other === undefined || first === undefined || other === first) return false;
    return (other > first === (score.better === "higher")) === (filter === "better");
  });
}

/** Indexes of the models with the best mean of a score. */
export function bestOf(means: readonly (number | undefined)[], { better }: EvaluationScore): readonly number[] {
  const known = means.filter((mean) => mean !== undefined);
  if (known.length < 2) return [];
  const best = better === "higher" ? Math.max(...known) : Math.min(...known);
  return means.flatMap((mean, i) => (mean === best ? [i] : []));
}
