/**
 * A data folder that no server has open, for its owner: what uses it, what a deletion would free, and the deletion. Holds the store's lock
 * until it is closed, so that what was shown is what goes.
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "@tinklet/wire/clock";
import { bytesOfItems, type DataUse, dataUse, type FolderItem, lostItems } from "./files/data-use.ts";
import { type PrunedRows, type PruneOutcome, pruneRows } from "./prune.ts";
import { openStore, type Store } from "./store.ts";

/** What to delete; what is not chosen stays. */
export interface PruneChoice {
  /** Runs, and samplers without a name, that were not used since this moment (milliseconds since the epoch). */
  readonly unusedSince?: number | undefined;
  /** This run alone. */
  readonly run?: string | undefined;
  /** What was set aside in `lost/`: all of it, or, with `unusedSince`, what is older. */
  readonly lost?: boolean | undefined;
}

/** What a deletion takes along, before it is done and after. */
export interface PrunePlan extends PruneOutcome {
  /** Names of what goes from `lost/`. */
  readonly lost: readonly string[];
}

/** A data folder that is held by this process. */
export interface DataFolder {
  /** Where folders went that the database did not know, when it was opened. */
  readonly setAside: readonly string[];
  use(): Promise<DataUse>;
  hasRun(runId: string): boolean;
  /** What would go and how much that frees. Changes nothing. */
  plan(choice: PruneChoice): Promise<PrunePlan>;
  prune(choice: PruneChoice): Promise<PrunePlan>;
  close(): Promise<void>;
}

/** Undoes a transaction, and carries out of it what it would have done. */
class Undone extends Error {
  readonly outcome: PruneOutcome;
  constructor(outcome: PruneOutcome) {
    super("undone");
    this.outcome = outcome;
  }
}

const nothing: PruneOutcome = { runs: [], samplers: 0, busy: [], bytes: 0 };

/**
 * Opens a data folder to look after it.
 *
 * @returns `undefined` when there is none: nothing is made in its place.
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
    hasRun: (runId) => store.db.sql.get("SELECT 1 FROM models WHERE id = ?", runId) !== undefined,
    plan: async (choice) => {
      const which = rowsOf(choice);
      const outcome = which === undefined ? nothing : await rehearse(store, which, now());
      return withLost(outcome, await chosenLost(dataDir, choice));
    },
    prune: async (choice) => {
      const which = rowsOf(choice);
      const lost = await chosenLost(dataDir, choice);
      const outcome = which === undefined ? nothing : await store.db.write((sql) => pruneRows(sql, which, now()));
      await store.collect();
      await store.db.write((sql) => sql.all("PRAGMA incremental_vacuum"));
      for (const { name } of lost) await rm(join(dataDir, "lost", name), { recursive: true, force: true });
      return withLost(outcome, lost);
    },
    close: () => store.close(),
  };
}

const rowsOf = ({ run, unusedSince }: PruneChoice): PrunedRows | undefined => {
  if (run !== undefined) return { run };
  return unusedSince === undefined ? undefined : { unusedSince };
};

const chosenLost = async (dataDir: string, { lost, unusedSince = Infinity }: PruneChoice): Promise<FolderItem[]> =>
  lost === true ? (await lostItems(dataDir)).filter(({ changedAt }) => changedAt < unusedSince) : [];

const withLost = (outcome: PruneOutcome, lost: readonly FolderItem[]): PrunePlan => ({
  ...outcome,
  lost: lost.map(({ name }) => name),
  bytes: outcome.bytes + bytesOfItems(lost),
});

/** The deletion itself, undone: nothing else knows so exactly what it would free. */
async function rehearse(store: Store, which: PrunedRows, now: number): Promise<PruneOutcome> {
  try {
    return await store.db.write((sql): PruneOutcome => {
      throw new Undone(pruneRows(sql, which, now));
    });
  } catch (error) {
    if (error instanceof Undone) return error.outcome;
    throw error;
  }
}
