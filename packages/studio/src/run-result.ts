/** Reads `result.json`, which `tinklet train` and recipes write at their end. Fields of the wrong type are skipped, texts and lists are truncated. */
import type { JsonValue, RunFileRow, RunFolderAnswer, RunFolderResult, RunFolderScore } from "@tinklet/wire";

/** Maximum characters of the description of a score. */
const maxMetricLength = 300;
const maxAnswers = 20;
const maxAnswerLength = 20_000;

/** The first valid scores of some results. */
export function scoreOf(results: readonly RunFileRow[]): RunFolderScore | undefined {
  for (const { metric, before, after, better } of results) {
    if (typeof metric !== "string" || !isFigure(before) || !isFigure(after)) continue;
    return { metric: metric.slice(0, maxMetricLength), before, after, better: better === "lower" ? "lower" : "higher" };
  }
  return undefined;
}

/** Answers of the first result that has some; time and cost of the first one, which is the run's own. */
export function resultOf(results: readonly RunFileRow[]): RunFolderResult | undefined {
  const answers = results.map((one) => answersOf(one["answers"])).find((list) => list.length > 0) ?? [];
  const { seconds, cost } = results[0] ?? {};
  if (answers.length === 0 && !isFigure(seconds) && !isFigure(cost)) return undefined;
  return {
    answers,
    ...(isFigure(seconds) && seconds >= 0 ? { seconds } : {}),
    ...(isFigure(cost) && cost >= 0 ? { cost } : {}),
  };
}

const isFigure = (value: JsonValue | undefined): value is number => typeof value === "number" && Number.isFinite(value);

function answersOf(value: JsonValue | undefined): RunFolderAnswer[] {
  if (!Array.isArray(value)) return [];
  return value.slice(0, maxAnswers).flatMap((one): RunFolderAnswer[] => {
    if (typeof one !== "object" || one === null || Array.isArray(one)) return [];
    const { question, before, after, expected } = one as RunFileRow;
    if (typeof question !== "string" || typeof before !== "string" || typeof after !== "string") return [];
    const cut = (text: string): string => text.slice(0, maxAnswerLength);
    return [
      {
        ...{ question: cut(question), before: cut(before), after: cut(after) },
        ...(typeof expected === "string" ? { expected: cut(expected) } : {}),
      },
    ];
  });
}
