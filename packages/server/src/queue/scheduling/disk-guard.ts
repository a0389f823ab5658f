/**
 * Keeps the data folder below a size: new work is refused before the disk is full, with what takes the room. What was accepted goes on,
 * and deleting always works.
 */
import type { Clock } from "@tinklet/wire/clock";
import { diskUse, largestRuns } from "../../store/files/disk-use.ts";
import type { Store } from "../../store/store.ts";
import { Refusal } from "../refusal.ts";

/** How long a measurement counts; what is accepted meanwhile is added to it. */
const measuredForMs = 1000;
/** Runs that a refusal names. */
const namedRuns = 3;

export class DiskGuard {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #limit: number | undefined;
  #usedBytes = 0;
  #measuredAt = Number.NEGATIVE_INFINITY;

  /** @param limit - in bytes; absent: no bound. */
  constructor(store: Store, clock: Clock, limit: number | undefined) {
    this.#store = store;
    this.#clock = clock;
    this.#limit = limit;
  }

  /** @throws {@link Refusal} 507 when so many bytes more would be too much. Names runs of this tenant only. */
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
    const own = runs.length === 0 ? "" : ` The largest runs of this key: ${runs.join(", ")}.`;
    throw new Refusal(
      507,
      "storage_limit",
      `The data folder has reached its limit of ${megabytes(limit)} (${parts.join(", ")}).${own} Delete checkpoints that are not needed, or raise the limit (--max-disk, maxDiskBytes).`,
      { retryAfterSeconds: 60 },
    );
  }
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
