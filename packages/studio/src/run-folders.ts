/**
 * Reads run folders of this and the official cookbook while they are being written: each read continues at the previous end of the file, an
 * incomplete line is deferred, and a line that is not an object is skipped. Access is read-only and limited to the given folders; symbolic
 * links below them are not followed.
 */
import { createHash } from "node:crypto";
import type { Dirent } from "node:fs";
import { lstat, readdir, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import type { Evaluation, JsonValue, RunFileRow, RunFolderInfo, RunFolders } from "@tinklet/wire";
import { readAnswers, readEvaluation } from "./evaluation-files.ts";
import { GrowingFile, GrowingLines, lastRows, type RowBounds, RowPage } from "./growing-lines.ts";
import { MetricColumns } from "./metric-columns.ts";
import { readPlainFile } from "./plain-file.ts";
import { resultOf, scoreOf } from "./run-result.ts";
import { SpendingSums } from "./spending-sums.ts";
import { readStepLog } from "./step-log.ts";

/** Limits of the search for run folders: nesting depth and number. */
const maxDepth = 3;
const maxFolders = 500;
/** Folders that a search looks into. */
const maxVisited = 20_000;
/** Maximum bytes of a configuration. */
const maxConfigBytes = 1_000_000;
/** Maximum rollout files of one folder. */
const maxRolloutFiles = 2000;
const outlineValues = 48;
/** A metric that is absent from this many last rows has no current value. */
const latestRows = 50;
const timingRows: RowBounds = { maxRows: 200, maxBytes: 1024 * 1024 };
/** Maximum total length of the lines of one page of rollouts. */
const maxPageBytes = 16 * 1024 * 1024;

/** The main metric of a folder in the list: the first of these that it has. */
const mainMetrics = ["env/all/reward/total", "train_mean_nll", "test/nll", "loss", "loss:sum", "reward"];

interface OpenFolder {
  readonly id: string;
  readonly path: string;
  readonly name: string;
  readonly metrics: GrowingFile<MetricColumns>;
  readonly checkpoints: GrowingLines;
  readonly spending: GrowingFile<SpendingSums>;
  /** Files of results: of the folder, and of the recipe whose stage it is. */
  readonly results: readonly string[];
}

/** @throws Error naming a path that is not a folder. */
export async function runFolders(paths: readonly string[]): Promise<RunFolders> {
  const roots: string[] = [];
  for (const folder of paths) {
    const found = await stat(folder).catch(() => undefined);
    if (!found?.isDirectory())
      throw new Error(`${folder} is not a folder. Give the folder of a run, or one that holds runs.`);
    roots.push(await realpath(resolve(folder)));
  }
  const known = new Map<string, OpenFolder>();
  /** Folders of evaluations by their id, as found by the last scan. */
  let evaluations: ReadonlyMap<string, string> = new Map();

  const scan = async (): Promise<readonly OpenFolder[]> => {
    const found: Found = { runs: new Map(), evaluations: new Map(), folders: 0 };
    for (const root of roots) await findRuns(root, root, 0, found);
    evaluations = found.evaluations; // replaced at once, because several requests scan at the same time
    const folders = [...found.runs].map(([path, name]) => {
      const id = idOf(path);
      let folder = known.get(id);
      if (folder === undefined) {
        const metrics = new GrowingFile(join(path, "metrics.jsonl"), new MetricColumns());
        const checkpoints = new GrowingLines(join(path, "checkpoints.jsonl"));
        const spending = new GrowingFile(join(path, "spending.jsonl"), new SpendingSums());
        const places = roots.includes(path) ? [path] : [path, dirname(path)];
        const results = places.map((place) => join(place, "result.json"));
        folder = { id, path, name, metrics, checkpoints, spending, results };
        known.set(id, folder);
      }
      return folder;
    });
    for (const id of known.keys()) if (!folders.some((folder) => folder.id === id)) known.delete(id);
    return folders;
  };
  const find = async (id: string) => known.get(id) ?? (await scan()).find((folder) => folder.id === id);

  return {
    evaluations: {
      list: async () => {
        await scan();
        const found: Evaluation[] = [];
        for (const [id, path] of evaluations) {
          const one = await readEvaluation(path, id); // one after the other: parsing is work of the main thread
          if (one !== undefined) found.push(one);
        }
        return found.sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime());
      },
      read: async (id, page) => {
        if (!evaluations.has(id)) await scan();
        const path = evaluations.get(id);
        const evaluation = path === undefined ? undefined : await readEvaluation(path, id);
        return evaluation === undefined ? undefined : { evaluation, ...(await readAnswers(path!, page)) };
      },
    },
    list: async () => {
      // Sequential, so that a request for a single folder is not delayed by the whole list.
      const infos: RunFolderInfo[] = [];
      for (const folder of await scan()) infos.push(await infoOf(folder));
      return infos.sort((a, b) => b.updatedAt - a.updatedAt);
    },
    read: async (id, after) => {
      const folder = await find(id);
      if (folder === undefined) return undefined;
      const info = await infoOf(folder);
      const checkpoints = await folder.checkpoints.read();
      const timing = await lastRows(join(folder.path, "timing_spans.jsonl"), timingRows);
      const spending = (await folder.spending.read()).sums;
      const result = resultOf(await readResults(folder));
      return { info, metrics: folder.metrics.store.after(after), checkpoints, timing, spending, result };
    },
    rollouts: async (id, file, { offset, limit }) => {
      const folder = await find(id);
      if (folder === undefined) return undefined;
      const known = [...(await rolloutFiles(folder.path)), ...(await dataFiles(folder.path))];
      if (!known.includes(file)) return undefined;
      const path = join(folder.path, file);
      const page = new RowPage(offset, { maxRows: limit, maxBytes: maxPageBytes });
      const { rows, total } = await new GrowingFile(path, page).read();
      const log = offset === 0 ? await readStepLog(path) : [];
      return { rows, total, log };
    },
  };
}

/** An id for the API. */
const idOf = (path: string): string => createHash("sha256").update(path).digest("hex").slice(0, 16);

interface Found {
  /** Names of run folders by their path. */
  readonly runs: Map<string, string>;
  /** Paths of evaluations by their id. */
  readonly evaluations: Map<string, string>;
  /** Number of folders that were looked into. */
  folders: number;
}

/** Finds folders with metrics or an evaluation at or below a root; symbolic links are not followed. */
async function findRuns(root: string, path: string, depth: number, into: Found): Promise<void> {
  const { runs, evaluations } = into;
  if ((runs.size >= maxFolders && evaluations.size >= maxFolders) || into.folders >= maxVisited) return;
  into.folders++;
  const entries = await readdir(path, { withFileTypes: true }).catch((): Dirent[] => []);
  const has = (name: string) => entries.some((entry) => entry.isFile() && entry.name === name);
  if (has("eval.json") && evaluations.size < maxFolders) evaluations.set(idOf(path), path);
  if (has("metrics.jsonl") && runs.size < maxFolders) {
    const below = relative(root, path).split(sep).join("/");
    runs.set(path, below === "" ? basename(root) : `${basename(root)}/${below}`);
  }
  if (depth >= maxDepth) return;
  for (const entry of entries) {
    const isHidden = entry.name.startsWith(".") || entry.name === "node_modules" || /^iteration_\d+$/.test(entry.name);
    if (entry.isDirectory() && !isHidden) await findRuns(root, join(path, entry.name), depth + 1, into);
  }
}

const readResults = ({ results }: OpenFolder): Promise<RunFileRow[]> =>
  Promise.all(results.map((file) => readObject(file)));

async function infoOf(folder: OpenFolder): Promise<RunFolderInfo> {
  const [metrics, checkpoints] = [await folder.metrics.read(), await folder.checkpoints.read()];
  const last: Record<string, number> = {};
  for (const name of metrics.names) {
    const value = metrics
      .column(name)
      .subarray(-latestRows)
      .findLast((one) => !Number.isNaN(one));
    if (value !== undefined) last[name] = value;
  }
  const metric = mainMetrics.find((name) => last[name] !== undefined);
  const runIds = new Set<string>();
  for (const row of checkpoints) {
    for (const path of [row["state_path"], row["sampler_path"]]) {
      const id = typeof path === "string" ? /^tinker:\/\/([^/]+)\//.exec(path)?.[1] : undefined;
      if (id !== undefined) runIds.add(id);
    }
  }
  const config = await readObject(join(folder.path, "config.json"));
  return {
    id: folder.id,
    name: folder.name,
    runIds: [...runIds].slice(0, 20),
    updatedAt: folder.metrics.updatedAt,
    rows: metrics.rows,
    last,
    metric,
    sparkline: metric === undefined ? [] : outlineOf(metrics.column(metric)),
    config,
    model: modelOf(config),
    rollouts: await rolloutFiles(folder.path),
    data: await dataFiles(folder.path),
    score: scoreOf(await readResults(folder)),
  };
}

/** Evenly spaced values of a column, always including the last one. */
function outlineOf(column: Float64Array): number[] {
  let count = 0;
  for (const value of column) if (!Number.isNaN(value)) count++;
  const every = Math.max(1, Math.ceil(count / outlineValues));
  const found: number[] = [];
  for (const value of column) {
    if (Number.isNaN(value)) continue;
    count--;
    if (count % every === 0) found.push(value);
  }
  return found.slice(-outlineValues);
}

/** The model of a run, under any field name that a cookbook uses. */
function modelOf(config: RunFileRow): string | undefined {
  const name = config["model_name"] ?? config["base_model"] ?? config["model"];
  return typeof name === "string" ? name : undefined;
}

/** Reads a small JSON file; an invalid one is empty. */
async function readObject(file: string): Promise<RunFileRow> {
  try {
    const text = await readPlainFile(file, maxConfigBytes);
    if (text === undefined) return {};
    if (typeof text !== "string") return { note: `${basename(file)} is too large to be shown` };
    const value = JSON.parse(text) as JsonValue;
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as RunFileRow) : {};
  } catch {
    return {};
  }
}

/** The file in which the supervised loop records training examples. */
async function dataFiles(path: string): Promise<string[]> {
  const found = await lstat(join(path, "train_data.jsonl")).catch(() => undefined);
  return found?.isFile() ? ["train_data.jsonl"] : [];
}

/** `iteration_N/…rollout….jsonl` and `…rollout….jsonl`, in step order. */
async function rolloutFiles(path: string): Promise<string[]> {
  const isRollouts = (name: string) => /rollout.*\.jsonl$/.test(name);
  const entries = await readdir(path, { withFileTypes: true }).catch((): Dirent[] => []);
  const found = entries.filter((entry) => entry.isFile() && isRollouts(entry.name)).map(({ name }) => name);
  const iterations = entries.flatMap((entry) => {
    const at = entry.isDirectory() ? /^iteration_(\d{1,9})$/.exec(entry.name)?.[1] : undefined;
    return at === undefined ? [] : [{ name: entry.name, at: Number(at) }];
  });
  for (const { name } of iterations.sort((a, b) => a.at - b.at).slice(-maxRolloutFiles / 2)) {
    const inside = await readdir(join(path, name), { withFileTypes: true }).catch((): Dirent[] => []);
    const rolloutNames = inside.filter((entry) => entry.isFile() && isRollouts(entry.name)).map((entry) => entry.name);
    // Evaluation files before training files: the last file is displayed first.
    found.push(...rolloutNames.sort().map((file) => `${name}/${file}`));
  }
  return found.slice(-maxRolloutFiles);
}
