/** Folders of run files (`metrics.jsonl`, `config.json`, `checkpoints.jsonl`, rollouts) as Tinklet's own servers show them. */
import { date } from "../schema/dates.ts";
import { float, int, json, list, map, nullable, optional, string, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { message } from "../schema/message.ts";

/** The folder of one run at a glance. */
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
  /** The metric that the outline shows: a loss or a reward. */
  readonly metric?: string;
  /** At most 48 values. */
  readonly sparkline: readonly number[];
  readonly config: RunFileRow;
  /** The base model that its configuration names. */
  readonly model?: string;
  /** Files of rollouts, by their path in the folder. */
  readonly rollouts: readonly string[];
  /** Files of training data as the model sees them: lines with `tokens` and `weights`. Read as rollouts are. */
  readonly data: readonly string[];
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
});

/** Every folder that the caller may see, the one that was written last first. */
export interface RunFolderListResponse {
  readonly folders: readonly RunFolder[];
}
export const RunFolderListResponse = message<RunFolderListResponse>("RunFolderListResponse", {
  folders: list(RunFolder.field),
});

/** Which lines of `metrics.jsonl`. */
export interface RunFolderQuery {
  /** Only those behind so many. */
  readonly after: number;
}
export const RunFolderQuery = message<RunFolderQuery, "after">("RunFolderQuery", { after: withDefault(int(), 0) });

/** A line of a run file: an object, whatever its fields. */
export type RunFileRow = Readonly<Record<string, JsonValue>>;

/** One folder with its files. */
export interface RunFolderResponse {
  readonly folder: RunFolder;
  /** Columns: entry i of each metric belongs to the same line; null where a line lacks it. */
  readonly metrics: Readonly<Record<string, readonly (number | null)[]>>;
  readonly checkpoints: readonly RunFileRow[];
  readonly timing: readonly RunFileRow[];
}
export const RunFolderResponse = message<RunFolderResponse>("RunFolderResponse", {
  folder: RunFolder.field,
  metrics: map(list(nullable(float()))),
  checkpoints: list(map(json())),
  timing: list(map(json())),
});

/** Which lines of a file of rollouts. */
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

/** A line of what was logged of a step's rollouts: a heading (without a text), or a text with the name of what it is. */
export interface StepLogEntry {
  /** How deep it lies, as of headings in a document. */
  readonly level: number;
  readonly name: string;
  readonly text: string;
}
export const StepLogEntry = message<StepLogEntry>("StepLogEntry", { level: int(), name: string(), text: string() });

/** Samples of a step, one a line. */
export interface RolloutsResponse {
  readonly rows: readonly RunFileRow[];
  readonly total: number;
  /** What the official cookbook logged beside them; with the first page only. */
  readonly log: readonly StepLogEntry[];
}
export const RolloutsResponse = message<RolloutsResponse, "log">("RolloutsResponse", {
  rows: list(map(json())),
  total: int(),
  log: withDefault(list(StepLogEntry.field), []),
});
