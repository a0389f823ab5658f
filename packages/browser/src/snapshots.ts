/** Saved weights in the engine's memory, for sampling: loaded from the storage when needed, the least recently used are removed. */
import type { SnapshotId } from "@tinklet/engine";
import { MemoryError } from "@tinklet/engine/errors";
import { Refusal } from "@tinklet/server/portable";
import type { Opened } from "./engine-host.ts";
import type { BrowserStorage } from "./storage/storage.ts";

/** Saved weights that stay in the engine's memory. */
const mostHeld = 8;

interface Held {
  readonly opened: Opened;
  readonly id: Promise<SnapshotId>;
  /** Samples that are being submitted with it. */
  users: number;
}

export class Snapshots {
  readonly #storage: BrowserStorage;
  /** By the key of the stored state; least recently used first. */
  readonly #held = new Map<string, Held>();

  constructor(storage: BrowserStorage) {
    this.#storage = storage;
  }

  /** Calls `use` with the snapshot of a stored state. @throws {@link Refusal} 404 if the state was deleted. */
  async use<T>(key: string, opened: Opened, use: (id: SnapshotId) => Promise<T>): Promise<T> {
    let held = this.#held.get(key);
    if (held === undefined || held.opened !== opened) held = { opened, id: this.#load(key, opened), users: 0 };
    this.#held.delete(key);
    this.#held.set(key, held); // moves it to the end: most recently used
    held.users++;
    try {
      const id = await held.id;
      await this.#trim(mostHeld);
      return await use(id);
    } catch (error) {
      if (this.#held.get(key) === held && (await held.id.catch(() => undefined)) === undefined) this.#held.delete(key);
      throw error;
    } finally {
      held.users--;
    }
  }

  async #load(key: string, { engine }: Opened): Promise<SnapshotId> {
    const state = await this.#storage.state(key);
    if (state === undefined) {
      throw new Refusal(404, "unknown_checkpoint", `The weights ${key} were deleted; save them again.`);
    }
    const { optimizer: _, ...weights } = state;
    try {
      return await engine.importSnapshot(weights);
    } catch (error) {
      if (!(error instanceof MemoryError)) throw error;
      await this.#trim(0);
      return engine.importSnapshot(weights);
    }
  }

  async #trim(most: number): Promise<void> {
    for (const [key, { id, opened, users }] of this.#held) {
      if (this.#held.size <= most) return;
      if (users > 0) continue;
      this.#held.delete(key);
      const snapshot = await id.catch(() => undefined);
      if (snapshot !== undefined) await opened.engine.deleteSnapshot(snapshot).catch(() => {}); // its worker may have ended
    }
  }

  /** Forgets the weights of a deleted state. */
  async forget(key: string): Promise<void> {
    const held = this.#held.get(key);
    this.#held.delete(key);
    const snapshot = await held?.id.catch(() => undefined);
    if (snapshot !== undefined) await held?.opened.engine.deleteSnapshot(snapshot).catch(() => {});
  }
}
