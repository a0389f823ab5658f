/**
 * Maintenance of a data folder that no server uses: what takes up space, what a deletion would free, and the deletion. It keeps the store
 * locked until it is closed, so that a deletion matches its plan.
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "@tinklet/wire/clock";
import { bytesOfItems, type DataUse, dataUse, type FolderItem, lostItems } from "./files/data-use.ts";
import { hasRun, type PrunedRows, type PruneOutcome, pruneRows } from "./prune.ts";
import { openStore, type Store } from "./store.ts";
import { expireTraces, type TracesUse, tracesUse } from "./tables/traces.ts";

/** What to delete. */
export interface PruneChoice {
  /** Runs and unnamed samplers that were not used since this time (milliseconds since the epoch). */
  readonly unusedSince?: number | undefined;
  /** Only this run: its id, or its name. */
  readonly run?: string | undefined;
  /** Checkpoints of steps of runs that have a final one, and the leftovers of ended sessions. */
  readonly steps?: boolean | undefined;
  /** Traces of all tenants, with their ratings: all of them, or with `unusedSince` those without a newer span. */
  readonly traces?: boolean | undefined;
  /** The folders in `lost/`: all of them, or with `unusedSince` the older ones. */
  readonly lost?: boolean | undefined;
}

/** What a deletion removes. */
export interface PrunePlan extends PruneOutcome {
  /** Number of traces. */
  readonly traces: number;
  /** Names of the folders to delete from `lost/`. */
  readonly lost: readonly string[];
}

/** A data folder that this process has opened and locked. */
export interface DataFolder {
  /** Paths of the folders that were moved to `lost/` at opening, because the database has no row for them. */
  readonly setAside: readonly string[];
  use(): Promise<DataUse>;
  /** @param run - the id of a run, or a name that only one tenant uses */
  hasRun(run: string): boolean;
  /** What a deletion would remove and how much it would free. Changes nothing. */
  plan(choice: PruneChoice): Promise<PrunePlan>;
  prune(choice: PruneChoice): Promise<PrunePlan>;
  close(): Promise<void>;
}

/** Thrown in a transaction to roll it back and return its outcome. */
class RolledBack extends Error {
  readonly outcome: PruneOutcome;
  constructor(outcome: PruneOutcome) {
    super("rolled back");
    this.outcome = outcome;
  }
}

const nothing: PruneOutcome = { runs: [], steps: [], samplers: 0, states: 0, busy: [], bytes: 0 };

/**
 * Opens a data folder for maintenance.
 *
 * @returns `undefined` when there is no data folder; none is created.
 * @throws StoreError with code `locked` while a server uses it.
 */
export async function openDataFolder(
  dataDir: string,
  options: { readonly now?: () => number } = {},
): Promise<DataFolder | undefined> {
  const { now = systemClock().now } = options;
  if (!["tinklet.db", "adapters"].some((name) => existsSync(join(dataDir, name)))) return undefined;
  const store = await openStore({ dataDir });
  return {
    setAside: store.setAside,
    use: () => dataUse(store.db.sql, dataDir),
    hasRun: (run) => hasRun(store.db.sql, run),
    plan: async (choice) => {
      const which = rowsOf(choice);
      const outcome = which === undefined ? nothing : await dryRun(store, which, now());
      return withOthers(outcome, chosenTraces(store, choice), await chosenLost(dataDir, choice));
    },
    prune: async (choice) => {
      const which = rowsOf(choice);
      const lost = await chosenLost(dataDir, choice);
      const traces = chosenTraces(store, choice);
      const outcome = which === undefined ? nothing : await store.db.write((sql) => pruneRows(sql, which, now()));
      if (traces.count > 0) await deleteTraces(store, choice);
      await store.collect();
      await store.db.write((sql) => sql.all("PRAGMA incremental_vacuum"));
      for (const { name } of lost) await rm(join(dataDir, "lost", name), { recursive: true, force: true });
      return withOthers(outcome, traces, lost);
    },
    close: () => store.close(),
  };
}

const rowsOf = ({ run, steps, unusedSince }: PruneChoice): PrunedRows | undefined => {
  if (run !== undefined) return { run };
  if (steps === true) return { steps };
  return unusedSince === undefined ? undefined : { unusedSince };
};

const chosenLost = async (dataDir: string, { lost, unusedSince = Infinity }: PruneChoice): Promise<FolderItem[]> =>
  lost === true ? (await lostItems(dataDir)).filter(({ changedAt }) => changedAt < unusedSince) : [];

const withOthers = (outcome: PruneOutcome, traces: TracesUse, lost: readonly FolderItem[]): PrunePlan => ({
  ...outcome,
  traces: traces.count,
  lost: lost.map(({ name }) => name),
  bytes: outcome.bytes + traces.bytes + bytesOfItems(lost),
});

const chosenTraces = (store: Store, { traces, unusedSince }: PruneChoice): TracesUse =>
  traces === true ? tracesUse(store.db.sql, unusedSince) : { count: 0, bytes: 0 };

/** Traces per transaction. */
const tracesPerWrite = 200;

async function deleteTraces(store: Store, { unusedSince = Number.MAX_SAFE_INTEGER }: PruneChoice): Promise<void> {
  for (;;) {
    const { count } = await store.db.write((sql) => expireTraces(sql, unusedSince, tracesPerWrite));
    if (count < tracesPerWrite) return;
  }
}

/** The outcome of a deletion that is rolled back, which gives exactly what it would free. */
async function dryRun(store: Store, which: PrunedRows, now: number): Promise<PruneOutcome> {
  try {
    return await store.db.write((sql): PruneOutcome => {
      throw new RolledBack(pruneRows(sql, which, now));
    });
  } catch (error) {
    if (error instanceof RolledBack) return error.outcome;
    throw error;
  }
}
