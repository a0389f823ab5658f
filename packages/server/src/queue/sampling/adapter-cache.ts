/**
 * Saved adapters in the engine's memory, for sampling. An adapter is loaded at its first use and shared by all samples that use it. Evicts
 * the least recently used unless it is in use; an evicted adapter is loaded again from its files.
 */
import type { Engine, SnapshotId } from "@tinklet/engine";
import { readAdapter } from "../../store/files/adapter-files.ts";
import type { FileStore } from "../../store/files/file-store.ts";

interface CachedAdapter {
  readonly snapshot: Promise<SnapshotId>;
  users: number;
}

export interface AdapterCacheOptions {
  readonly engine: Engine;
  readonly files: FileStore;
  readonly limit: number;
  /** Runs an engine call; frees memory while the engine is out of memory. `user` is the queue that waits if there is none to free. */
  readonly withMemory: <T>(work: () => Promise<T>, user: string) => Promise<T>;
}

export class AdapterCache {
  readonly #engine: Engine;
  readonly #files: FileStore;
  readonly #limit: number;
  readonly #withMemory: AdapterCacheOptions["withMemory"];
  /** By files id, least recently used first. */
  readonly #held = new Map<string, CachedAdapter>();

  constructor(options: AdapterCacheOptions) {
    this.#engine = options.engine;
    this.#files = options.files;
    this.#limit = options.limit;
    this.#withMemory = options.withMemory;
  }

  /** Runs `work` with the adapter of these files in memory. `user` is the queue that waits when there is no memory for it. */
  async use<T>(filesId: string, user: string, work: (snapshot: SnapshotId) => Promise<T>): Promise<T> {
    const held = this.#held.get(filesId) ?? this.#load(filesId, user);
    this.#touch(filesId, held);
    held.users++;
    try {
      return await work(await held.snapshot);
    } finally {
      held.users--;
      this.#trim(this.#limit);
    }
  }

  /** Adds a snapshot that the engine made from an adapter in training, so that its first sample does not load it from files. */
  adopt(filesId: string, snapshot: SnapshotId): void {
    this.#touch(filesId, { snapshot: Promise.resolve(snapshot), users: 0 });
    this.#trim(this.#limit);
  }

  /** Evicts one adapter that is not in use; returns whether there was one. */
  evictOne(): boolean {
    const before = this.#held.size;
    this.#trim(before - 1);
    return this.#held.size < before;
  }

  #load(filesId: string, user: string): CachedAdapter {
    const snapshot = readAdapter(this.#files, filesId, { optimizer: false }).then((state) =>
      this.#withMemory(() => this.#engine.importSnapshot(state), user),
    );
    const held = { snapshot, users: 0 };
    snapshot.catch(() => {
      if (this.#held.get(filesId) === held) this.#held.delete(filesId);
    });
    return held;
  }

  #touch(filesId: string, held: CachedAdapter): void {
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
