/**
 * Writes an evaluation into a folder: `answers.jsonl`, one item per line, and `eval.json`, the models with their scores. `eval.json` is
 * written last, so a folder that has it is complete.
 */
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { writeFailure } from "@tinklet/sdk/files";
import type { Comparison } from "./compare-models.ts";

/** Name of the file's format, with its version. */
export const evaluationFormat = "tinklet-eval/1";

/** Head of an evaluation, besides its results. */
export interface EvaluationHead {
  /** Title. */
  readonly name: string;
  /** The data file or recipe. */
  readonly data: string;
  readonly kind: "data" | "recipe";
  readonly createdAt: Date;
  readonly seconds: number;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly models: readonly {
    readonly label: string;
    /** Base model. */
    readonly model: string;
    /** `tinker://` path of the weights; null for a base model. */
    readonly path: string | null;
  }[];
}

/** The content of `eval.json`. */
export function evaluationSummary(
  head: EvaluationHead,
  { scores, results, items }: Comparison,
): Record<string, unknown> {
  const { name, data, kind, createdAt, seconds, settings, models } = head;
  return {
    ...{ format: evaluationFormat, name, data, kind, created_at: createdAt.toISOString(), seconds, settings },
    ...{ items: items.length, scores, models, results: results.map(inSnakeCase) },
  };
}

const inSnakeCase = (figures: Comparison["results"][number]) =>
  Object.fromEntries(
    Object.entries(figures).map(([name, { mean, low, high, standardError, items, unparsed }]) => [
      name,
      { mean, low, high, standard_error: standardError, items, unparsed },
    ]),
  );

/** Creates the folder and writes both files. @throws TinkerError naming the file that could not be written */
export async function writeEvaluation(folder: string, head: EvaluationHead, comparison: Comparison): Promise<void> {
  const lines = comparison.items.map((item, at) => `${JSON.stringify({ item: at, ...item })}\n`);
  const summary = `${JSON.stringify(evaluationSummary(head, comparison), null, 2)}\n`;
  await mkdir(folder, { recursive: true }).catch((cause: unknown) => Promise.reject(writeFailure(folder, cause)));
  await rm(join(folder, "eval.json"), { force: true }); // of an earlier evaluation
  for (const [name, text] of [
    ["answers.jsonl", lines.join("")],
    ["eval.json", summary],
  ] as const) {
    const path = join(folder, name);
    await writeFile(`${path}.new`, text)
      .then(() => rename(`${path}.new`, path))
      .catch(async (cause: unknown) => {
        await rm(`${path}.new`, { force: true });
        throw writeFailure(path, cause);
      });
  }
}
