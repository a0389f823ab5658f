/**
 * Reads evaluations: `eval.json` and `answers.jsonl` of a folder. A file that is not an evaluation is skipped; within one, texts and lists are
 * truncated and figures that are no numbers are left out.
 */
import { join } from "node:path";
import type { Evaluation, EvaluationFigure, JsonValue, RunFileRow } from "@tinklet/wire";
import { GrowingFile, RowPage } from "./growing-lines.ts";
import { readPlainFile } from "./plain-file.ts";

const format = "tinklet-eval/1";
const maxBytes = 200_000;
const maxTextLength = 300;
/** Maximum models and scores of one evaluation. */
const maxColumns = 20;
const maxSettings = 50;
/** Maximum total length of the lines of one page of answers. */
const maxPageBytes = 16 * 1024 * 1024;
/** The latest time that a Date can represent. */
const latestDate = 8.64e15;

/** @returns `undefined` if the folder has no valid evaluation */
export async function readEvaluation(path: string, id: string): Promise<Evaluation | undefined> {
  const text = await readPlainFile(join(path, "eval.json"), maxBytes).catch(() => undefined);
  if (typeof text !== "string") return undefined;
  try {
    return evaluationOf(JSON.parse(text) as JsonValue, id);
  } catch {
    return undefined;
  }
}

/** A page of the answers, and their number. */
export async function readAnswers(
  path: string,
  { offset, limit }: { readonly offset: number; readonly limit: number },
): Promise<{ readonly rows: readonly RunFileRow[]; readonly total: number }> {
  const page = new RowPage(offset, { maxRows: limit, maxBytes: maxPageBytes });
  const { rows, total } = await new GrowingFile(join(path, "answers.jsonl"), page).read();
  return { rows, total };
}

const isRow = (value: JsonValue | undefined): value is RunFileRow =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const rowsOf = (value: JsonValue | undefined): readonly RunFileRow[] =>
  Array.isArray(value) ? value.slice(0, maxColumns).map((one: JsonValue) => (isRow(one) ? one : {})) : [];
const textOf = (value: JsonValue | undefined): string =>
  typeof value === "string" ? value.slice(0, maxTextLength) : "";
const isFigure = (value: JsonValue | undefined): value is number => typeof value === "number" && Number.isFinite(value);
const isCount = (value: JsonValue | undefined): value is number =>
  isFigure(value) && Number.isSafeInteger(value) && value >= 0;

function evaluationOf(value: JsonValue, id: string): Evaluation | undefined {
  if (!isRow(value) || value["format"] !== format) return undefined;
  const { name, data, seconds, settings, items } = value;
  const time = Date.parse(textOf(value["created_at"]));
  return {
    evaluationId: id,
    name: textOf(name) === "" ? "evaluation" : textOf(name),
    data: textOf(data),
    createdAt: new Date(Math.abs(time) <= latestDate ? time : 0),
    ...(isFigure(seconds) ? { seconds } : {}),
    settings: isRow(settings) ? settingsOf(settings) : {},
    items: isCount(items) ? items : 0,
    scores: rowsOf(value["scores"]).map((score) => ({
      name: textOf(score["name"]),
      better: score["better"] === "lower" ? "lower" : "higher",
    })),
    models: rowsOf(value["models"]).map(({ label, model, path }) => ({
      label: textOf(label),
      model: textOf(model),
      path: typeof path === "string" ? textOf(path) : null,
    })),
    results: rowsOf(value["results"]).map(figuresOf),
  };
}

/** Texts are truncated; a list or an object becomes its JSON as a text. */
const settingsOf = (settings: RunFileRow): RunFileRow =>
  Object.fromEntries(
    Object.entries(settings)
      .slice(0, maxSettings)
      .map(([name, value]) => {
        const isText = typeof value === "string" || typeof value === "object";
        return [name.slice(0, maxTextLength), isText && value !== null ? shortText(value) : value];
      }),
  );
const shortText = (value: JsonValue): string =>
  (typeof value === "string" ? value : JSON.stringify(value)).slice(0, maxTextLength);

function figuresOf(result: RunFileRow): Record<string, EvaluationFigure> {
  const found = Object.entries(result)
    .slice(0, maxColumns)
    .flatMap(([name, figure]): [string, EvaluationFigure][] => {
      if (name === "__proto__" || !isRow(figure) || !isFigure(figure["mean"])) return [];
      const { mean, low, high, items, unparsed } = figure;
      return [
        [
          name.slice(0, maxTextLength),
          {
            mean,
            ...(isFigure(low) ? { low } : {}),
            ...(isFigure(high) ? { high } : {}),
            ...(isCount(items) ? { items } : {}),
            ...(isCount(unparsed) ? { unparsed } : {}),
          },
        ],
      ];
    });
  return Object.fromEntries(found);
}
