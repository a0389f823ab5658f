/** The storage of a page: an IndexedDB database, used by one tab at a time. A change is one transaction. */
import type { AdapterState } from "@tinklet/engine";
import { type BrowserStorage, isSamplerStateKey, type StorageChange, StorageError, storageFull } from "./storage.ts";

const stores = { runs: "runs", checkpoints: "checkpoints", states: "states" } as const;
const allStores = Object.values(stores);
const version = 1;

const settled = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error as DOMException);
  });

function openDatabase(name: string): Promise<IDBDatabase> {
  const request = indexedDB.open(`tinklet-${name}`, version);
  request.onupgradeneeded = () => {
    const { result: database } = request;
    database.createObjectStore(stores.runs, { keyPath: "id" });
    database.createObjectStore(stores.checkpoints, { keyPath: "path" });
    database.createObjectStore(stores.states);
  };
  return settled(request);
}

/** Takes the lock of a storage. Resolves with a function that releases it, or with undefined if another tab has it. */
function takeLock(name: string): Promise<(() => void) | undefined> {
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) return Promise.resolve(() => {}); // not a secure context: there are no locks between tabs
  return new Promise((resolve, reject) => {
    locks
      .request(`tinklet-storage-${name}`, { ifAvailable: true }, (lock) => {
        if (lock === null) return resolve(undefined);
        return new Promise<void>((release) => resolve(release));
      })
      .catch(reject);
  });
}

function failure(name: string, error: unknown): StorageError {
  const cause = error as { readonly name?: string; readonly message?: string } | null;
  if (cause?.name === "QuotaExceededError") return storageFull(name, error);
  const why = cause?.message ?? "the browser gives no reason";
  return new StorageError("storage_failed", `The storage ${JSON.stringify(name)} of this page failed: ${why}`, {
    cause: error,
  });
}

/**
 * Opens a storage of this page's origin; creates it if needed.
 *
 * @param name - pages with different names do not see each other's runs. @defaultValue "page"
 * @throws {@link StorageError} `storage_in_use` if another tab has it.
 */
export async function openStorage(name = "page"): Promise<BrowserStorage> {
  const release = await takeLock(name);
  if (release === undefined) {
    throw new StorageError(
      "storage_in_use",
      `The storage ${JSON.stringify(name)} is in use by another tab of this page.`,
      {
        hint: "Close the other tab, or open a storage with another name.",
      },
    );
  }
  let database: IDBDatabase;
  try {
    database = await openDatabase(name);
  } catch (error) {
    release();
    throw failure(name, error);
  }
  let isClosed = false;
  const transaction = (mode: IDBTransactionMode): IDBTransaction => {
    if (isClosed) throw new StorageError("storage_closed", `The storage ${JSON.stringify(name)} was closed.`);
    return database.transaction(allStores, mode, { durability: "strict" });
  };
  const read = async <T>(request: (transaction: IDBTransaction) => IDBRequest<T>): Promise<T> => {
    const reading = transaction("readonly");
    try {
      return await settled(request(reading));
    } catch (error) {
      throw failure(name, error);
    }
  };
  const write = (change: StorageChange): Promise<void> => {
    const writing = transaction("readwrite");
    return new Promise((resolve, reject) => {
      writing.oncomplete = () => resolve();
      writing.onabort = () => reject(failure(name, writing.error));
      try {
        const [runs, checkpoints, states] = allStores.map((store) => writing.objectStore(store)) as [
          IDBObjectStore,
          IDBObjectStore,
          IDBObjectStore,
        ];
        for (const id of change.deletedRuns ?? []) runs.delete(id);
        for (const path of change.deletedCheckpoints ?? []) checkpoints.delete(path);
        for (const key of change.deletedStates ?? []) states.delete(key);
        for (const run of change.runs ?? []) runs.put(run);
        for (const checkpoint of change.checkpoints ?? []) checkpoints.put(checkpoint);
        for (const [key, state] of change.states ?? []) states.put(state, key);
        writing.commit();
      } catch (error) {
        reject(failure(name, error)); // for example a value that cannot be copied because there is no memory
        writing.abort();
      }
    });
  };
  return {
    name,
    records: async () => ({
      runs: await read((reading) => reading.objectStore(stores.runs).getAll()),
      checkpoints: await read((reading) => reading.objectStore(stores.checkpoints).getAll()),
    }),
    state: (key) => read<AdapterState | undefined>((reading) => reading.objectStore(stores.states).get(key)),
    samplerStateKeys: async () => {
      const keys = await read((reading) => reading.objectStore(stores.states).getAllKeys());
      return keys.filter((key): key is string => typeof key === "string" && isSamplerStateKey(key));
    },
    commit: write,
    close: async () => {
      if (isClosed) return;
      isClosed = true;
      database.close();
      release();
    },
  };
}
