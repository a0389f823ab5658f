/** A storage that ends with the page: for tests, and for pages that must not keep anything. */
import type { AdapterState } from "@tinklet/engine";
import {
  type BrowserStorage,
  type CheckpointRecord,
  isSamplerStateKey,
  type RunRecord,
  stateBytes,
  storageFull,
} from "./storage.ts";

export interface MemoryStorageOptions {
  /** Bytes of states that fit. @defaultValue no limit */
  readonly quotaBytes?: number;
}

/** Creates a storage in memory. It can be opened again after `close`, as a storage on disk can. */
export function memoryStorage({ quotaBytes = Number.POSITIVE_INFINITY }: MemoryStorageOptions = {}): BrowserStorage {
  const name = "memory";
  const runs = new Map<string, RunRecord>();
  const checkpoints = new Map<string, CheckpointRecord>();
  let states = new Map<string, AdapterState>();
  return {
    name,
    records: async () => ({ runs: [...runs.values()], checkpoints: [...checkpoints.values()] }),
    state: async (key) => structuredClone(states.get(key)),
    samplerStateKeys: async () => [...states.keys()].filter(isSamplerStateKey),
    commit: async (change) => {
      const next = new Map(states);
      for (const key of change.deletedStates ?? []) next.delete(key);
      for (const [key, state] of change.states ?? []) next.set(key, structuredClone(state));
      const bytes = [...next.values()].reduce((sum, state) => sum + stateBytes(state), 0);
      if (bytes > quotaBytes) throw storageFull(name);
      states = next;
      for (const id of change.deletedRuns ?? []) runs.delete(id);
      for (const path of change.deletedCheckpoints ?? []) checkpoints.delete(path);
      for (const run of change.runs ?? []) runs.set(run.id, run);
      for (const checkpoint of change.checkpoints ?? []) checkpoints.set(checkpoint.path, checkpoint);
    },
    close: async () => {},
  };
}
