/** Folders of run files (`metrics.jsonl`, `config.json`, `checkpoints.jsonl`, rollouts) on Tinklet servers. */
import { date } from "../schema/dates.ts";
import { float, int, json, list, map, nullable, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { message } from "../schema/message.ts";

/** Scores of a recipe on its own test, before and after training. */
export interface RunFolderScore {
  /** What the scores are. */
  readonly metric: string;
  readonly before: number;
  readonly after: number;
  readonly better: "higher" | "lower";
}
export const RunFolderScore = message<RunFolderScore>("RunFolderScore", {
  metric: string(),
  before: float(),
  after: float(),
  better: oneOf<RunFolderScore["better"]>("higher", "lower"),
});

/** Tokens that were submitted, and are paid for where tokens have a price. */
export interface RunFolderSpending {
  readonly train: number;
  readonly evaluate: number;
  readonly sample: number;
}
export const RunFolderSpending = message<RunFolderSpending>("RunFolderSpending", {
  train: float(),
  evaluate: float(),
  sample: float(),
});

/** A question with the model's answers before and after training. */
export interface RunFolderAnswer {
  readonly question: string;
  readonly before: string;
  readonly after: string;
  readonly expected?: string;
}
export const RunFolderAnswer = message<RunFolderAnswer>("RunFolderAnswer", {
  question: string(),
  before: string(),
  after: string(),
  expected: optional(string()),
});

/** What a run recorded at its end. */
export interface RunFolderResult {
  readonly answers: readonly RunFolderAnswer[];
  readonly seconds?: number;
  /** US dollars. */
  readonly cost?: number;
}
export const RunFolderResult = message<RunFolderResult>("RunFolderResult", {
  answers: list(RunFolderAnswer.field),
  seconds: optional(float()),
  cost: optional(float()),
});

/** Summary of a run folder. */
export interface RunFolder {
  readonly folderId: string;
  readonly name: string;
  /** The runs that its checkpoints belong to. */
  readonly runIds: readonly string[];
  readonly updatedAt: Date;
  /** Lines of `metrics.jsonl`. */
  readonly rows: number;
  /** The last value of each metric. */
  readonly last: Readonly<Record<string, number>>;
  /** The metric whose values are in `sparkline`: a loss or a reward. */
  readonly metric?: string;
  /** At most 48 values. */
  readonly sparkline: readonly number[];
  readonly config: RunFileRow;
  /** The base model in its configuration. */
  readonly model?: string;
  /** Rollout files, as paths in the folder. */
  readonly rollouts: readonly string[];
  /** Files of tokenized training data: lines with `tokens` and `weights`. Read with the same route as rollouts. */
  readonly data: readonly string[];
  /** From the `result.json` of its recipe. */
  readonly score?: RunFolderScore;
}
export const RunFolder = message<RunFolder, "data">("RunFolder", {
  folderId: string(),
  name: string(),
  runIds: list(string()),
  updatedAt: date(),
  rows: int(),
  last: map(float()),
  metric: optional(string()),
  sparkline: list(float()),
  config: map(json()),
  model: optional(string()),
  rollouts: list(string()),
  data: withDefault(list(string()), []),
  score: optional(RunFolderScore.field),
});

/** Every folder that the caller may see, most recently written first. */
export interface RunFolderListResponse {
  readonly folders: readonly RunFolder[];
}
export const RunFolderListResponse = message<RunFolderListResponse>("RunFolderListResponse", {
  folders: list(RunFolder.field),
});

/** Selects lines of `metrics.jsonl`. */
export interface RunFolderQuery {
  /** Number of lines to skip. */
  readonly after: number;
}
export const RunFolderQuery = message<RunFolderQuery, "after">("RunFolderQuery", { after: withDefault(int(), 0) });

/** A line of a run file: an object with any fields. */
export type RunFileRow = Readonly<Record<string, JsonValue>>;

/** One folder with its files. */
export interface RunFolderResponse {
  readonly folder: RunFolder;
  /** Columns: entry i of each metric belongs to line i; null where the line lacks the metric. */
  readonly metrics: Readonly<Record<string, readonly (number | null)[]>>;
  readonly checkpoints: readonly RunFileRow[];
  readonly timing: readonly RunFileRow[];
  /** Absent where the loop does not record it. */
  readonly spending?: RunFolderSpending;
  /** From its `result.json`. */
  readonly result?: RunFolderResult;
}
export const RunFolderResponse = message<RunFolderResponse>("RunFolderResponse", {
  folder: RunFolder.field,
  metrics: map(list(nullable(float()))),
  checkpoints: list(map(json())),
  timing: list(map(json())),
  spending: optional(RunFolderSpending.field),
  result: optional(RunFolderResult.field),
});

/** Selects lines of a rollout file. */
export interface RolloutsQuery {
  /** One of the folder's `rollouts` or `data`. */
  readonly file: string;
  readonly offset: number;
  readonly limit: number;
}
export const RolloutsQuery = message<RolloutsQuery, "offset" | "limit">("RolloutsQuery", {
  file: string(),
  offset: withDefault(int(), 0),
  limit: withDefault(int(), 200),
});

/** An entry of a step's log: a heading (without text), or a named text. */
export interface StepLogEntry {
  /** Depth, like the level of a heading in a document. */
  readonly level: number;
  readonly name: string;
  readonly text: string;
}
export const StepLogEntry = message<StepLogEntry>("StepLogEntry", { level: int(), name: string(), text: string() });

/** Samples of a step, one per line. */
export interface RolloutsResponse {
  readonly rows: readonly RunFileRow[];
  readonly total: number;
  /** The log entries of the official cookbook for this step; only with the first page. */
  readonly log: readonly StepLogEntry[];
}
export const RolloutsResponse = message<RolloutsResponse, "log">("RolloutsResponse", {
  rows: list(map(json())),
  total: int(),
  log: withDefault(list(StepLogEntry.field), []),
});
