/** Evaluations (`eval.json` and `answers.jsonl` of `tinklet eval`) on Tinklet servers. */
import { date } from "../schema/dates.ts";
import { float, int, json, list, map, nullable, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { message } from "../schema/message.ts";
import type { RunFileRow } from "./run-folders.ts";

/** What was measured. */
export interface EvaluationScore {
  readonly name: string;
  readonly better: "higher" | "lower";
}
export const EvaluationScore = message<EvaluationScore>("EvaluationScore", {
  name: string(),
  better: oneOf<EvaluationScore["better"]>("higher", "lower"),
});

/** A model that was measured. */
export interface EvaluationModel {
  readonly label: string;
  readonly model: string;
  /** Its `tinker://` path; null for a base model. */
  readonly path: string | null;
}
export const EvaluationModel = message<EvaluationModel>("EvaluationModel", {
  label: string(),
  model: string(),
  path: nullable(string()),
});

/** The mean of a score, with its interval. */
export interface EvaluationFigure {
  readonly mean: number;
  readonly low?: number;
  readonly high?: number;
  /** Items that have the score. */
  readonly items?: number;
  /** Answers from which no score could be read. */
  readonly unparsed?: number;
}
export const EvaluationFigure = message<EvaluationFigure>("EvaluationFigure", {
  mean: float(),
  low: optional(float()),
  high: optional(float()),
  items: optional(int()),
  unparsed: optional(int()),
});

/** One evaluation of one or several models. */
export interface Evaluation {
  readonly evaluationId: string;
  readonly name: string;
  /** The data file or the recipe. */
  readonly data: string;
  readonly createdAt: Date;
  readonly seconds?: number;
  readonly settings: Readonly<Record<string, JsonValue>>;
  /** Number of questions. */
  readonly items: number;
  readonly scores: readonly EvaluationScore[];
  readonly models: readonly EvaluationModel[];
  /** For each model its figures by score; a score may be absent. */
  readonly results: readonly Readonly<Record<string, EvaluationFigure>>[];
}
export const Evaluation = message<Evaluation>("Evaluation", {
  evaluationId: string(),
  name: string(),
  data: string(),
  createdAt: date(),
  seconds: optional(float()),
  settings: map(json()),
  items: int(),
  scores: list(EvaluationScore.field),
  models: list(EvaluationModel.field),
  results: list(map(EvaluationFigure.field)),
});

/** Every evaluation that the caller may see, latest first. */
export interface EvaluationListResponse {
  readonly evaluations: readonly Evaluation[];
}
export const EvaluationListResponse = message<EvaluationListResponse>("EvaluationListResponse", {
  evaluations: list(Evaluation.field),
});

/** Selects lines of `answers.jsonl`. */
export interface EvaluationQuery {
  readonly offset: number;
  readonly limit: number;
}
export const EvaluationQuery = message<EvaluationQuery, "offset" | "limit">("EvaluationQuery", {
  offset: withDefault(int(), 0),
  limit: withDefault(int(), 200),
});

/** One evaluation with a page of its answers. */
export interface EvaluationResponse {
  readonly evaluation: Evaluation;
  /** Lines of `answers.jsonl`. */
  readonly rows: readonly RunFileRow[];
  readonly total: number;
}
export const EvaluationResponse = message<EvaluationResponse>("EvaluationResponse", {
  evaluation: Evaluation.field,
  rows: list(map(json())),
  total: int(),
});
