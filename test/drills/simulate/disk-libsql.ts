/** In place of `libsql` in the server's modules: the real driver, which knows of a full disk and of connections that are still open. */
import Libsql from "libsql";
import { checkRoom, databaseSynced, volumeOf } from "./disk.ts";

const sqliteFull = (): Error => Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });

export default class Database {
  readonly #inner: Libsql.Database;
  readonly #file: string;

  constructor(file: string) {
    const volume = volumeOf(file);
    if (volume.full) throw sqliteFull();
    this.#file = file;
    this.#inner = new Libsql(file);
    volume.databases.add(this.#inner);
  }

  get inTransaction(): boolean {
    return this.#inner.inTransaction;
  }

  prepare(text: string): unknown {
    const statement = this.#inner.prepare(text);
    if (text.startsWith("UPDATE requests SET state = ?, result = ?")) {
      return {
        run: (state: unknown, result: { byteLength: number }, ...rest: unknown[]) => {
          // SQLite's limit is a gigabyte.
          if (result.byteLength > volumeOf(this.#file).mostBytes)
            throw Object.assign(new Error("string or blob too big"), { code: "SQLITE_TOOBIG" });
          return statement.run(state, result, ...rest);
        },
      };
    }
    if (text !== "COMMIT") return statement;
    return {
      run: (...params: unknown[]) => {
        try {
          checkRoom(volumeOf(this.#file));
        } catch {
          throw sqliteFull();
        }
        return statement.run(...params);
      },
    };
  }

  exec(text: string): unknown {
    return this.#inner.exec(text);
  }

  pragma(text: string): unknown {
    const result = this.#inner.pragma(text);
    // From here on the server syncs the log itself; what was done before was synced by SQLite.
    if (text === "synchronous = OFF") databaseSynced(volumeOf(this.#file));
    return result;
  }

  close(): void {
    volumeOf(this.#file).databases.delete(this.#inner);
    this.#inner.close();
  }
}
