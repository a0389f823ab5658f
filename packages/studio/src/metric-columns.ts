/**
 * Stores `metrics.jsonl` as one column per metric instead of one object per row. The number of cells (names × rows) is bounded, so that a
 * file with a new name in every row uses at most as much memory as other files.
 */
import type { RunFileRow } from "@tinklet/wire";
import type { RowStore } from "./growing-lines.ts";

/** Maximum numbers per file: 128 MB. */
const maxCells = 16_000_000;
/** Maximum metric names per file; later names are ignored. */
const maxNames = 1000;
/** Maximum characters of a metric name. */
const maxNameLength = 500;

export class MetricColumns implements RowStore {
  /** Number of rows. */
  rows = 0;
  /** NaN where a row does not have the metric. Each column has capacity for at least `rows` numbers. */
  readonly #columns = new Map<string, Float64Array>();
  #room = 0;
  readonly #maxCells: number;

  /** @param limit - maximum number of cells. */
  constructor(limit = maxCells) {
    this.#maxCells = limit;
  }

  add(row: RunFileRow): boolean {
    if ((this.rows + 1) * Math.max(1, this.#columns.size) > this.#maxCells) return false;
    if (this.rows === this.#room) this.#grow();
    for (const name in row) {
      const value = row[name];
      if (typeof value !== "number" || !Number.isFinite(value)) continue; // JSON.parse reads 1e999 as Infinity
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

  /** The values of a metric; NaN where a row does not have it. */
  column(name: string): Float64Array {
    return this.#columns.get(name)?.subarray(0, this.rows) ?? new Float64Array(0);
  }

  /** All columns from a row on, in the wire format: null for missing values. */
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
    if (isTooMuch || name.length > maxNameLength || name === "__proto__") return undefined;
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
