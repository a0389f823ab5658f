/**
 * Notifies the watchers of a tenant's runs of stored optimizer steps and changed runs. It keeps no events: a watcher reads what it missed
 * from the store.
 */
import type { StepRow } from "../../store/tables/steps.ts";

export interface StepWatcher {
  /** A step was stored. */
  readonly onStep: (row: StepRow) => void;
  /** A request of the run was accepted or has finished. */
  readonly onRun: (runId: string) => void;
  /** The server is shutting down. */
  readonly onClose: () => void;
}

export class StepFeed {
  readonly #watchers = new Map<string, Set<StepWatcher>>();
  #closed = false;

  /** @returns a function that removes the watcher. */
  watch(tenant: string, watcher: StepWatcher): () => void {
    if (this.#closed) watcher.onClose();
    const watchers = this.#watchers.get(tenant) ?? new Set();
    this.#watchers.set(tenant, watchers.add(watcher));
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(tenant) === watchers) this.#watchers.delete(tenant);
    };
  }

  /** Number of watchers of a tenant. */
  watching(tenant: string): number {
    return this.#watchers.get(tenant)?.size ?? 0;
  }

  stored(row: StepRow): void {
    for (const { onStep } of this.#watchers.get(row.tenant) ?? []) onStep(row);
  }

  changed(tenant: string, runId: string): void {
    for (const { onRun } of this.#watchers.get(tenant) ?? []) onRun(runId);
  }

  close(): void {
    this.#closed = true;
    for (const watchers of this.#watchers.values()) for (const { onClose } of [...watchers]) onClose();
  }
}
