/** One line per run: a run of the server together with the folder that records it, or either alone. */
import type { RunFolder, RunProgress } from "@tinklet/wire";
import { oneLine } from "./text.ts";

export type LineStatus = RunProgress["status"] | "folder";

/** A run as the list shows it. */
export interface RunLine {
  /** Id in addresses: of the folder if there is one, otherwise of the run. */
  readonly key: string;
  readonly name: string;
  /** The second line: what identifies the run besides its name. */
  readonly detail: string;
  readonly status: LineStatus;
  /** Why it waits or has failed. */
  readonly reason: string | undefined;
  readonly model: string;
  readonly tags: readonly string[];
  readonly steps: number;
  readonly metric: string;
  readonly value: number | undefined;
  readonly tokens: number | undefined;
  readonly outline: readonly number[];
  readonly at: number;
  /** Texts in which a search looks, in lower case. */
  readonly text: string;
}

/** The run's name, or its id if the name is empty or invisible. */
export const runName = (run: RunProgress): string => (oneLine(run.name).trim() === "" ? run.runId : run.name);

/** Why a run stands still. A run that trains needs no reason. */
export const reasonOf = ({ status, reason }: RunProgress): string | undefined =>
  status === "waiting" || status === "failed" ? reason : undefined;

/** The session's display name, where it says more than the name. */
const detailOf = (run: RunProgress): string =>
  run.displayName === undefined || run.displayName === run.name ? "" : run.displayName;

const searchable = (texts: readonly string[]): string => texts.join("\n").toLowerCase();

/** @param runs - runs with one name, latest first: those that resumed each other */
function lineOfRun([run]: readonly [RunProgress, ...RunProgress[]]): RunLine {
  const notes = Object.entries(run.userMetadata)
    .filter(([key]) => key !== nameKey && key !== clientKey)
    .map(([key, value]) => `${key}: ${value}`);
  const name = runName(run);
  const tags = [...run.tags, ...notes];
  return {
    key: run.runId,
    name,
    detail: detailOf(run),
    status: run.status,
    reason: reasonOf(run),
    model: run.baseModel,
    tags,
    steps: run.steps,
    metric: "loss",
    value: run.loss,
    tokens: run.tokens,
    outline: run.sparkline,
    at: run.lastRequestAt.getTime(),
    text: searchable([name, run.displayName ?? "", run.runId, run.baseModel, ...tags]),
  };
}

/** @param runs - the folder's runs, latest first: a run that was resumed has several */
function lineOfFolder(folder: RunFolder, runs: readonly RunProgress[]): RunLine {
  const [latest] = runs;
  const tags = [...(folder.rollouts.length > 0 ? ["rollouts"] : []), ...(latest?.tags ?? [])];
  const name = latest === undefined ? folder.name : runName(latest);
  return {
    key: folder.folderId,
    name,
    detail: latest === undefined ? "" : folder.name,
    status: latest?.status ?? "folder",
    reason: latest && reasonOf(latest),
    model: folder.model ?? latest?.baseModel ?? "–",
    tags,
    // The folder of a run that was resumed has more steps than its latest part; a last evaluation is a row without a step.
    steps: runs.length === 1 && latest!.steps > 0 ? latest!.steps : folder.rows,
    metric: folder.metric ?? (latest === undefined ? "" : "loss"),
    value: folder.metric === undefined ? latest?.loss : folder.last[folder.metric],
    tokens: latest?.tokens,
    outline: folder.metric === undefined ? (latest?.sparkline ?? []) : folder.sparkline,
    at: Math.max(folder.updatedAt.getTime(), latest?.lastRequestAt.getTime() ?? 0),
    text: searchable([name, folder.name, folder.folderId, folder.model ?? "", ...folder.runIds, ...tags]),
  };
}

/** Metadata in which loops and commands put the name that was asked for, and what they are. */
const [nameKey, clientKey] = ["name", "client"];
/** The last step of a run is written to its folder within this time. */
const writtenWithinMs = 10 * 60_000;

/**
 * Whether a folder that names no run yet, because it has no checkpoint, belongs to a run: it has the name that the loop gave to both, the
 * same model, and was written while the run was used.
 */
function isBegunBy({ name, model, updatedAt }: RunFolder, run: RunProgress): boolean {
  return (
    run.userMetadata[nameKey] === name.split("/").at(-1) &&
    run.baseModel === model &&
    run.createdAt <= updatedAt &&
    updatedAt.getTime() <= run.lastRequestAt.getTime() + writtenWithinMs
  );
}

/** The folder's runs, latest first: those that it names, and those that resumed them and thus have their name. */
function runsOf(folder: RunFolder, runs: readonly RunProgress[]): RunProgress[] {
  const { runIds } = folder;
  if (runIds.length === 0)
    return runs
      .filter((run) => isBegunBy(folder, run))
      .sort(latestFirst)
      .slice(0, 1);
  const ids = new Set(runIds);
  const names = new Set(runs.filter(({ runId }) => ids.has(runId)).map(({ name }) => name));
  return runs.filter(({ runId, name }) => ids.has(runId) || names.has(name)).sort(latestFirst);
}

const latestFirst = (a: RunProgress, b: RunProgress): number => b.createdAt.getTime() - a.createdAt.getTime();

/** The lines of all runs. A run that several folders name, as when a folder was copied, belongs to the latest of them. */
export function linesOfRuns(runs: readonly RunProgress[], folders: readonly RunFolder[]): RunLine[] {
  const rest = new Set(runs);
  const sorted = [...folders].sort((a, b) => b.updatedAt.getTime() - a.updatedAt.getTime());
  const lines = sorted.map((folder) => {
    const own = runsOf(folder, [...rest]);
    for (const run of own) rest.delete(run);
    return lineOfFolder(folder, own);
  });
  const byName = new Map<string, RunProgress[]>();
  for (const run of [...rest].sort(latestFirst)) {
    const key = runName(run);
    byName.set(key, [...(byName.get(key) ?? []), run]);
  }
  return [...lines, ...[...byName.values()].map((same) => lineOfRun(same as [RunProgress, ...RunProgress[]]))];
}

const folderBegunBy = (run: RunProgress | undefined, folders: readonly RunFolder[]): RunFolder | undefined =>
  run && folders.find((folder) => folder.runIds.length === 0 && isBegunBy(folder, run));

/** What an id in an address means. */
export interface RunSource {
  readonly key: string;
  readonly runId: string | undefined;
  readonly folderId: string | undefined;
}

/** @param isFolder - whether the address says that the id is one of a folder */
export function sourceOf(
  key: string,
  runs: readonly RunProgress[],
  folders: readonly RunFolder[],
  isFolder = false,
): RunSource {
  const folder =
    folders.find(({ folderId }) => folderId === key) ??
    folders
      .filter(({ runIds }) => runIds.includes(key))
      .sort((a, b) => b.updatedAt.getTime() - a.updatedAt.getTime())[0] ??
    folderBegunBy(
      runs.find(({ runId }) => runId === key),
      folders,
    );
  if (folder === undefined)
    return isFolder ? { key, runId: undefined, folderId: key } : { key, runId: key, folderId: undefined };
  return { key, runId: runsOf(folder, runs)[0]?.runId, folderId: folder.folderId };
}
