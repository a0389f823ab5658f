/**
 * The size limit of the data folder. Rejects new work above the limit, with a list of what uses the space. Accepted requests continue,
 * and deletions are always possible.
 */
import type { Clock } from "@tinklet/wire/clock";
import { diskUse, largestRuns } from "../../store/files/disk-use.ts";
import type { Store } from "../../store/store.ts";
import { Refusal } from "../refusal.ts";

/** How long a measurement is valid; bytes accepted in the meantime are added to it. */
const measuredForMs = 1000;
/** Number of runs that the error message names. */
const namedRuns = 3;

export class DiskGuard {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #limit: number | undefined;
  #usedBytes = 0;
  #measuredAt = Number.NEGATIVE_INFINITY;

  /** @param limit - in bytes; absent: unlimited. */
  constructor(store: Store, clock: Clock, limit: number | undefined) {
    this.#store = store;
    this.#clock = clock;
    this.#limit = limit;
  }

  /** @throws {@link Refusal} 507 when `bytes` more would exceed the limit. Its message names runs of this tenant only. */
  check(tenant: string, bytes: number): void {
    const limit = this.#limit;
    if (limit === undefined) return;
    const { sql } = this.#store.db;
    const now = this.#clock.monotonic();
    if (now - this.#measuredAt >= measuredForMs) {
      this.#usedBytes = diskUse(sql).totalBytes;
      this.#measuredAt = now;
    }
    if (this.#usedBytes + bytes <= limit) {
      this.#usedBytes += bytes;
      return;
    }
    const use = diskUse(sql);
    const parts = [
      `checkpoints ${megabytes(use.checkpointsBytes)}`,
      `models in training ${megabytes(use.statesBytes)}`,
      `samplers ${megabytes(use.samplersBytes)}`,
      `the database ${megabytes(use.databaseBytes)}`,
    ];
    const runs = largestRuns(sql, tenant, namedRuns).map(({ run, bytes: size }) => `${run} ${megabytes(size)}`);
    const largest = runs.length === 0 ? "" : ` The largest runs of this key: ${runs.join(", ")}.`;
    throw new Refusal(
      507,
      "storage_limit",
      `The data folder has reached its limit of ${megabytes(limit)} (${parts.join(", ")}).${largest} Delete checkpoints that are not needed, or raise the limit (--max-disk, maxDiskBytes).`,
      { retryAfterSeconds: 60 },
    );
  }
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
