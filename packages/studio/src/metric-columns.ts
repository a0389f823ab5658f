/**
 * The numbers of `metrics.jsonl` by metric: a hundred thousand rows are a few columns and not as many objects. Bounded by cells, so that
 * a file with a new name in every row takes no more than another.
 */
import type { RunFileRow } from "@tinklet/wire";
import type { RowKeeper } from "./growing-lines.ts";

/** Numbers of one file: 128 MB. */
const maxCells = 16_000_000;
/** Names of one file; later ones are left out. */
const maxNames = 1000;

export class MetricColumns implements RowKeeper {
  /** How many rows there are. */
  rows = 0;
  /** NaN where a row lacks the metric. Each holds `rows` numbers and room for more. */
  readonly #columns = new Map<string, Float64Array>();
  #room = 0;
  readonly #maxCells: number;

  /** @param limit - numbers that it holds at most. */
  constructor(limit = maxCells) {
    this.#maxCells = limit;
  }

  add(row: RunFileRow): boolean {
    if ((this.rows + 1) * Math.max(1, this.#columns.size) > this.#maxCells) return false;
    if (this.rows === this.#room) this.#grow();
    for (const name in row) {
      const value = row[name];
      if (typeof value !== "number" || !Number.isFinite(value)) continue; // 1e999 is read as Infinity
      const column = this.#columnOf(name);
      if (column !== undefined) column[this.rows] = value;
    }
    this.rows++;
    return true;
  }

  clear(): void {
    this.#columns.clear();
    this.rows = 0;
    this.#room = 0;
  }

  get names(): Iterable<string> {
    return this.#columns.keys();
  }

  /** A metric's numbers; NaN is none. */
  column(name: string): Float64Array {
    return this.#columns.get(name)?.subarray(0, this.rows) ?? new Float64Array(0);
  }

  /** All columns from a row on, as they go over the wire. */
  after(row: number): Record<string, (number | null)[]> {
    const from = Math.max(0, Math.min(row, this.rows));
    const columns = [...this.#columns.keys()].map((name): [string, (number | null)[]] => [
      name,
      Array.from(this.column(name).subarray(from), (value) => (Number.isNaN(value) ? null : value)),
    ]);
    return Object.fromEntries(columns);
  }

  #columnOf(name: string): Float64Array | undefined {
    const known = this.#columns.get(name);
    if (known !== undefined) return known;
    const isTooMuch = this.#columns.size >= maxNames || (this.#columns.size + 1) * (this.rows + 1) > this.#maxCells;
    if (isTooMuch || name === "__proto__") return undefined;
    const made = new Float64Array(this.#room).fill(Number.NaN);
    this.#columns.set(name, made);
    return made;
  }

  #grow(): void {
    this.#room = Math.max(64, Math.ceil(this.#room * 1.5));
    for (const [name, values] of this.#columns) {
      const larger = new Float64Array(this.#room).fill(Number.NaN);
      larger.set(values);
      this.#columns.set(name, larger);
    }
  }
}
