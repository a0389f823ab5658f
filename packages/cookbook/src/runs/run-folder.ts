/**
 * The record of one run on disk, in the official cookbook's files: `config.json`, `metrics.jsonl`, `checkpoints.jsonl` and
 * `timing_spans.jsonl`, and `iteration_N/train_rollout_summaries.jsonl`; also `spending.jsonl`, all tokens
 * that were submitted, `failures.jsonl`, the environments that failed, `recoveries.jsonl`, the breaks where the server had lost the model, and `train_data.jsonl`, a few examples as the model sees them. Resuming: the last
 * checkpoint determines the next step, and rows written after it are removed. One writer at a time.
 */
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { TinkerError } from "@tinklet/sdk";
import { checkOptions } from "@tinklet/wire/options";
import { DataError } from "../data/data-error.ts";
import type { RecoveryRow } from "./recovery.ts";
import { takeLock } from "./run-lock.ts";

/** A line of `checkpoints.jsonl`. `epoch` and `batch` name the batch that comes next. Further keys are kept. */
export interface CheckpointRecord {
  readonly name: string;
  readonly batch?: number;
  readonly epoch?: number;
  readonly final?: boolean;
  /** Weights and optimizer: training can resume from here. */
  readonly state_path?: string;
  /** Weights for sampling. */
  readonly sampler_path?: string;
  readonly [key: string]: unknown;
}

/** A line of `metrics.jsonl`: the step, counted from 0, and numbers by name. */
export type MetricsRow = Readonly<Record<string, number>> & { readonly step: number };

/** A line of `spending.jsonl`: tokens that were submitted, and are paid for, even if the step was never recorded. */
export interface SpendingRow {
  readonly step: number;
  readonly train_tokens: number;
  readonly evaluate_tokens: number;
  readonly sample_tokens?: number;
}

/** A line of `failures.jsonl`: an environment that failed, and at which step. */
export interface FailureRow {
  readonly step: number;
  readonly group: string;
  readonly env: number;
  readonly kind: string;
  readonly message: string;
}

/** A line of `train_data.jsonl`: a sequence, and what each token of it weighs in the loss. */
export interface DataRow {
  readonly tokens: readonly number[];
  readonly weights: readonly number[];
}

/** Settings that may differ from those of the run that is in the folder. */
export interface ClaimOptions {
  /** Names of settings that may change. */
  readonly changeable?: readonly string[];
  /** Names of settings that may only grow; null means without end. */
  readonly growing?: readonly string[];
  /** Values of settings in runs of an earlier release that did not record them. */
  readonly unrecorded?: Readonly<Record<string, unknown>>;
}

const files = {
  config: "config.json",
  metrics: "metrics.jsonl",
  checkpoints: "checkpoints.jsonl",
  timing: "timing_spans.jsonl",
  spending: "spending.jsonl",
  failures: "failures.jsonl",
  recoveries: "recoveries.jsonl",
  data: "train_data.jsonl",
  result: "result.json", // written by `tinklet train`
  trackio: "trackio.json", // a logger's: a cleared run is a new run there, too
} as const;
const rolloutFile = "train_rollout_summaries.jsonl";
/** The folder of one step, named as the official cookbook does. */
const iterationFolder = (step: number) => `iteration_${String(step).padStart(6, "0")}`;
const lockFile = "run.lock";

/** The folder of one run, locked by its first write until {@link RunFolder.close}. */
export class RunFolder {
  readonly path: string;
  #unlock: Promise<() => Promise<void>> | undefined;
  readonly #listeners = new Set<(row: MetricsRow) => void>();

  private constructor(path: string) {
    this.path = path;
  }

  /** Opens a folder, making it where it is missing. */
  static async open(path: string): Promise<RunFolder> {
    await writing(path, () => mkdir(path, { recursive: true }));
    return new RunFolder(path);
  }

  /** Opens a folder for reading only; it need not exist. */
  static at(path: string): RunFolder {
    return new RunFolder(path);
  }

  /** Releases the folder's lock. Writing later takes it again. */
  async close(): Promise<void> {
    const unlock = this.#unlock;
    this.#unlock = undefined;
    await (await unlock?.catch(() => undefined))?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @throws {@link DataError} when another process, or another loop of this one, writes here. */
  async #lock(): Promise<void> {
    const path = join(this.path, lockFile);
    this.#unlock ??= writing(path, () => takeLock(path, this.path));
    try {
      await this.#unlock;
    } catch (error) {
      this.#unlock = undefined;
      throw error;
    }
  }

  /**
   * Deletes the run's files, and nothing else in the folder.
   *
   * @param isSame - whether a configuration is that of the run to clear. Without it, any run is cleared.
   * @throws {@link DataError} naming a file that another run, or its user, has under the name of a run's file. Nothing is deleted then.
   */
  async clear(isSame?: (config: Readonly<Record<string, unknown>>) => boolean): Promise<void> {
    if (isSame !== undefined) await this.#checkSame(isSame);
    await this.#lock();
    await Promise.all(Object.values(files).map((name) => rm(join(this.path, name), { force: true })));
    await this.#removeRollouts(0);
  }

  async #checkSame(isSame: (config: Readonly<Record<string, unknown>>) => boolean): Promise<void> {
    const config = await this.readConfig();
    if (config !== undefined && isSame(config)) return;
    const names = await readdir(this.path);
    const lost = Object.values(files).find((name) => names.includes(name));
    if (lost === undefined) return;
    throw new DataError({ file: join(this.path, lost) }, "does not belong to this run and would be deleted", {
      hint: "Choose another folder, or move the file away.",
    });
  }

  readConfig(): Promise<Readonly<Record<string, unknown>> | undefined> {
    return this.#read(files.config).then((text) => {
      if (text === undefined) return undefined;
      try {
        return JSON.parse(text) as Record<string, unknown>;
      } catch (cause) {
        throw new DataError({ file: join(this.path, files.config) }, "is not JSON", { cause });
      }
    });
  }

  async writeConfig(config: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#replace(files.config, `${JSON.stringify(config, null, 2)}\n`);
  }

  /**
   * Makes the folder that of a run with these settings: writes them, or, where a run is there already, checks that it is the
   * same one.
   *
   * @param settings - everything that decides what the run computes.
   * @param options - settings that may differ in a resumed run; the new values are written.
   * @returns whether a run was there.
   * @throws {@link DataError} naming the settings that differ.
   */
  async claim(settings: Readonly<Record<string, unknown>>, options: ClaimOptions = {}): Promise<boolean> {
    checkOptions("claim", options, { changeable: true, growing: true, unrecorded: true });
    await this.#lock();
    const recorded = await this.readConfig();
    if (recorded === undefined) {
      await this.writeConfig(settings);
      return false;
    }
    const before = { ...options.unrecorded, ...recorded };
    const now = JSON.parse(JSON.stringify(settings)) as Record<string, unknown>;
    const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
    const changed = names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]));
    if (changed.length === 0) return true;
    const refused = changed.filter(
      (name) =>
        !options.changeable?.includes(name) &&
        !(options.growing?.includes(name) && endOf(now[name]) > endOf(before[name])),
    );
    if (refused.length === 0) {
      await this.writeConfig(now);
      return true;
    }
    const shown = refused.map(
      (name) => `${name} was ${JSON.stringify(before[name])} and is now ${JSON.stringify(now[name])}`,
    );
    await this.close(); // a refused caller must not hold the lock
    throw new DataError({ file: this.path }, `holds a run with other settings: ${shown.join("; ")}`, {
      hint: ["Resume with the settings of that run, or choose another folder (", { name: "folder" }, ")."],
    });
  }

  readMetrics(): Promise<MetricsRow[]> {
    return this.#rows<MetricsRow>(files.metrics);
  }

  async appendMetrics(row: MetricsRow): Promise<void> {
    await this.#append(files.metrics, row);
    for (const listener of this.#listeners) listener(row);
  }

  /**
   * Calls a function with every row of metrics that is written from now on, and with the times of steps as `time/…`. For loggers.
   *
   * @returns a function that ends it.
   */
  onRow(listener: (row: MetricsRow) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  readCheckpoints(): Promise<CheckpointRecord[]> {
    return this.#rows<CheckpointRecord>(files.checkpoints);
  }

  /** Appends a line to `checkpoints.jsonl`. On disk when it resolves: a resume relies on it. */
  async appendCheckpoint(record: CheckpointRecord): Promise<void> {
    await this.#append(files.checkpoints, record, { durable: true });
  }

  /** Removes lines of `checkpoints.jsonl`; nothing is deleted on the server. @returns the removed ones */
  async removeCheckpoints(isRemoved: (record: CheckpointRecord) => boolean): Promise<CheckpointRecord[]> {
    const records = await this.readCheckpoints();
    const removed = records.filter(isRemoved);
    if (removed.length > 0) {
      const kept = records.filter((record) => !removed.includes(record));
      await this.#replace(files.checkpoints, kept.map((row) => `${JSON.stringify(row)}\n`).join(""), { durable: true });
    }
    return removed;
  }

  async readSpending(): Promise<SpendingRow[]> {
    return this.#rows<SpendingRow>(files.spending);
  }

  /** Written before the step is submitted, and never removed: a repeated step is paid for twice. */
  async appendSpending(row: SpendingRow): Promise<void> {
    await this.#append(files.spending, row, { durable: true });
  }

  /** How long the parts of a step took. Kept apart from the metrics, which are the same however fast the machine is. */
  async appendTiming(step: number, seconds: Readonly<Record<string, number>>): Promise<void> {
    const spans = Object.entries(seconds).map(([name, duration]) => ({
      name,
      duration,
      wall_start: 0,
      wall_end: duration,
    }));
    await this.#append(files.timing, { step, spans });
    const times = spans.map(
      ({ name, duration }) => [name === "step" ? "time/total" : `time/${name}`, duration] as const,
    );
    for (const listener of this.#listeners) listener({ ...Object.fromEntries(times), step });
  }

  /** A few examples of a supervised run as the model sees them: tokens, and the weight of each. */
  async writeData(records: readonly DataRow[]): Promise<void> {
    await this.#replace(files.data, records.map((record) => `${JSON.stringify(record)}\n`).join(""));
  }

  readFailures(): Promise<FailureRow[]> {
    return this.#rows<FailureRow>(files.failures);
  }

  async appendFailure(row: FailureRow): Promise<void> {
    await this.#append(files.failures, row);
  }

  readRecoveries(): Promise<RecoveryRow[]> {
    return this.#rows<RecoveryRow>(files.recoveries);
  }

  /** Never removed: a run that lost its model keeps the record of it. */
  async appendRecovery(row: RecoveryRow): Promise<void> {
    await this.#append(files.recoveries, row, { durable: true });
  }

  /** The rollouts of a step, one record per trajectory. */
  readRollouts(step: number): Promise<Readonly<Record<string, unknown>>[]> {
    return this.#rows(join(iterationFolder(step), rolloutFile));
  }

  async writeRollouts(step: number, records: readonly object[]): Promise<void> {
    const folder = join(this.path, iterationFolder(step));
    await this.#lock();
    await writing(folder, () => mkdir(folder, { recursive: true }));
    const text = records.map((record) => `${JSON.stringify(record)}\n`).join("");
    await this.#replace(join(iterationFolder(step), rolloutFile), text);
  }

  /** Removes the rollouts of a step and of later ones; what else lies in their folders stays. */
  async #removeRollouts(fromStep: number): Promise<void> {
    for (const name of await readdir(this.path)) {
      const step = /^iteration_(\d+)$/.exec(name)?.[1];
      if (step === undefined || Number(step) < fromStep) continue;
      await rm(join(this.path, name, rolloutFile), { force: true });
      await rmdir(join(this.path, name)).catch(() => {}); // not empty: files of the user
    }
  }

  /** The last checkpoint that can be trained on. */
  async lastCheckpoint(): Promise<(CheckpointRecord & { readonly state_path: string }) | undefined> {
    const records = await this.readCheckpoints();
    return records.findLast(
      (record): record is CheckpointRecord & { state_path: string } => record.state_path !== undefined,
    );
  }

  /** Removes rows of `nextStep` and later, so that resuming there repeats no line. */
  async rewind(nextStep: number): Promise<void> {
    await this.#removeRollouts(nextStep);
    for (const name of [files.metrics, files.timing, files.failures]) {
      if ((await this.#read(name)) === undefined) continue;
      const kept = (await this.#rows<{ readonly step: number }>(name)).filter(({ step }) => step < nextStep);
      await this.#replace(name, kept.map((row) => `${JSON.stringify(row)}\n`).join(""));
    }
  }

  /** Adds a line, whole or not at all: an incomplete last line, left by a crash or a full disk, is removed first. */
  async #append(name: string, row: object, { durable = false } = {}): Promise<void> {
    const path = join(this.path, name);
    await this.#lock();
    await writing(path, async () => {
      const file = await open(path, "a+");
      try {
        const whole = await wholeLinesBytes(file);
        if ((await file.stat()).size > whole) await file.truncate(whole);
        try {
          await file.appendFile(`${JSON.stringify(row)}\n`);
          if (durable) await file.datasync();
        } catch (error) {
          await file.truncate(whole).catch(() => {}); // the first error is reported
          throw error;
        }
      } finally {
        await file.close();
      }
    });
  }

  /** Written beside and moved over: a crash leaves the old file or the new one. */
  async #replace(name: string, text: string, { durable = false } = {}): Promise<void> {
    const path = join(this.path, name);
    await this.#lock();
    await writing(path, async () => {
      try {
        await writeFile(`${path}.new`, text, { flush: durable });
        await rename(`${path}.new`, path);
      } catch (error) {
        await rm(`${path}.new`, { force: true });
        throw error;
      }
    });
  }

  async #read(name: string): Promise<string | undefined> {
    try {
      return await readFile(join(this.path, name), "utf8");
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw cause;
    }
  }

  /** The rows of a file. A last line without its line break was cut off by a crash and is ignored. */
  async #rows<T>(name: string): Promise<T[]> {
    const text = (await this.#read(name)) ?? "";
    const lines = text.split("\n").slice(0, -1);
    return lines.flatMap((line, at) => {
      if (line.trim() === "") return [];
      try {
        return [JSON.parse(line) as T];
      } catch (cause) {
        throw new DataError({ file: join(this.path, name), line: at + 1 }, "is not JSON", { cause });
      }
    });
  }
}

/** A setting that may grow, as a number. */
const endOf = (value: unknown) => (value === null ? Number.POSITIVE_INFINITY : Number(value));

/** Bytes up to and including the last line break: the rest is an incomplete line. */
async function wholeLinesBytes(file: FileHandle): Promise<number> {
  const { size } = await file.stat();
  const tail = Buffer.alloc(1024);
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - tail.length);
    const { bytesRead } = await file.read(tail, 0, end - start, start);
    const at = tail.subarray(0, bytesRead).lastIndexOf(10);
    if (at >= 0) return start + at + 1;
    end = start;
  }
  return 0;
}

/** Turns a failed write into an error with its reason. */
async function writing<T>(path: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (cause) {
    if (cause instanceof TinkerError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    const said = cause instanceof Error ? cause.message : String(cause);
    if (code === "ENOSPC" || code === "EDQUOT") {
      throw new TinkerError(`The disk is full: ${path} could not be written.`, {
        code: "disk_full",
        cause,
        hint: "Free some space and run the same command again: it resumes from the last checkpoint.",
      });
    }
    throw new TinkerError(`${path} could not be written: ${said}`, { code: "write_failed", cause });
  }
}
