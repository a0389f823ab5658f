/**
 * Which saved adapters are in the engine's memory for sampling. Loads on first use, shares one copy among all who sample from it,
 * and lets the least recently used go when there are too many. Losing one is harmless: its files are on the disk.
 */
import type { Engine, SnapshotId } from "@tinklet/engine";
import { readAdapter } from "../../store/files/adapter-files.ts";
import type { FileStore } from "../../store/files/file-store.ts";

interface Resident {
  readonly snapshot: Promise<SnapshotId>;
  users: number;
}

export interface AdapterCacheOptions {
  readonly engine: Engine;
  readonly files: FileStore;
  readonly limit: number;
  /** Runs an engine call of a user's, freeing memory for as long as it wants more. */
  readonly withMemory: <T>(work: () => Promise<T>, user: string) => Promise<T>;
}

export class AdapterCache {
  readonly #engine: Engine;
  readonly #files: FileStore;
  readonly #limit: number;
  readonly #withMemory: AdapterCacheOptions["withMemory"];
  /** Least recently used first. */
  readonly #held = new Map<string, Resident>();

  constructor(options: AdapterCacheOptions) {
    this.#engine = options.engine;
    this.#files = options.files;
    this.#limit = options.limit;
    this.#withMemory = options.withMemory;
  }

  get size(): number {
    return this.#held.size;
  }

  /** Runs `work` with the snapshot of these files in memory; `user` is who waits should there be no room for them. */
  async use<T>(filesId: string, user: string, work: (snapshot: SnapshotId) => Promise<T>): Promise<T> {
    let held = this.#held.get(filesId);
    if (held === undefined) {
      const load = readAdapter(this.#files, filesId, { optimizer: false }).then((state) =>
        this.#withMemory(() => this.#engine.importSnapshot(state), user),
      );
      held = { snapshot: load, users: 0 };
      load.catch(() => this.#held.delete(filesId));
    }
    this.#touch(filesId, held);
    held.users++;
    try {
      return await work(await held.snapshot);
    } finally {
      held.users--;
      this.#trim(this.#limit);
    }
  }

  /** Remembers a snapshot that the engine made from a live adapter, so that its first sample need not load it. */
  adopt(filesId: string, snapshot: SnapshotId): void {
    this.#touch(filesId, { snapshot: Promise.resolve(snapshot), users: 0 });
    this.#trim(this.#limit);
  }

  /** Frees one that nobody uses. Returns whether there was one. */
  evictOne(): boolean {
    const before = this.#held.size;
    this.#trim(before - 1);
    return this.#held.size < before;
  }

  #touch(filesId: string, held: Resident): void {
    this.#held.delete(filesId);
    this.#held.set(filesId, held);
  }

  #trim(limit: number): void {
    for (const [id, { users, snapshot }] of this.#held) {
      if (this.#held.size <= limit) return;
      if (users > 0) continue;
      this.#held.delete(id);
      void snapshot.then((snapshotId) => this.#engine.deleteSnapshot(snapshotId)).catch(() => {});
    }
  }
}
