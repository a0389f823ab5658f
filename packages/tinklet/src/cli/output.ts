/**
 * What a person or a program sees: results on stdout as a table or as JSON, everything else on stderr. Knows terminals,
 * colours and the one line that is written over while something goes on.
 */
import type { Input } from "./parse.ts";

/** A result in both of its shapes. */
export interface Result {
  readonly json: unknown;
  readonly title?: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** A failure, for a person. */
export interface Explained {
  readonly message: string;
  readonly details?: readonly string[];
}

const codes = { dim: 2, bold: 1, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 96, gray: 90 } as const;
export type Style = keyof typeof codes;

export interface OutputSettings {
  readonly format: "table" | "json";
  readonly quiet: boolean;
  readonly color: boolean;
}

/** Writes results, notes and progress. */
export class Output {
  readonly settings: OutputSettings;
  #progress = "";
  #progressAtMs = Number.NEGATIVE_INFINITY;
  /** When the first progress was told: what is over at once needs no line in a log. */
  #sinceMs: number | undefined;

  constructor(settings: OutputSettings) {
    this.settings = settings;
  }

  static of(input: Input): Output {
    const { NO_COLOR = "", FORCE_COLOR = "" } = process.env;
    const wanted = FORCE_COLOR !== "" || process.stdout.isTTY === true;
    return new Output({
      format: input.flag("json") || input.text("format") === "json" ? "json" : "table",
      quiet: input.flag("quiet"),
      color: wanted && NO_COLOR === "" && !input.flag("no-color"),
    });
  }

  get isJson(): boolean {
    return this.settings.format === "json";
  }

  /** Whether there is somebody to look at a line that changes. */
  get isLive(): boolean {
    return process.stderr.isTTY === true && !this.settings.quiet && !this.isJson;
  }

  /** Columns of the terminal. */
  get width(): number {
    return process.stdout.columns || 80; // 0 on terminals that do not say
  }

  style(text: string, ...styles: readonly Style[]): string {
    if (!this.settings.color || styles.length === 0) return text;
    return `\x1b[${styles.map((style) => codes[style]).join(";")}m${text}\x1b[0m`;
  }

  /** A result: a table, or one JSON document. */
  result(result: Result): void {
    this.endProgress();
    if (this.isJson) this.line(JSON.stringify(result.json, null, 2));
    else this.line(this.#table(result));
  }

  /** Text on stdout, as it is. */
  line(text = ""): void {
    this.endProgress();
    process.stdout.write(`${text}\n`);
  }

  /** One value of a stream of results; only written as JSON. */
  event(value: unknown): void {
    if (this.isJson) process.stdout.write(`${JSON.stringify(value)}\n`);
  }

  /** Something worth knowing that is no result. */
  note(text: string): void {
    if (this.settings.quiet) return;
    this.endProgress();
    process.stderr.write(`${text}\n`);
  }

  error({ message, details = [] }: Explained): void {
    this.endProgress();
    process.stderr.write(`${["Error: ", message].join("")}\n${details.map((line) => `${line}\n`).join("")}`);
  }

  /**
   * How far something is. On a terminal one line that is written over; elsewhere a line every two seconds, so that a log
   * stays readable. Nothing with JSON or `--quiet`.
   */
  progress(text: string, options: { readonly always?: boolean } = {}): void {
    if (this.settings.quiet || this.isJson) return;
    const nowMs = performance.now();
    this.#sinceMs ??= nowMs;
    if (this.isLive) {
      if (!options.always && nowMs - this.#progressAtMs < 80) return;
      const fitting = text.slice(0, (process.stderr.columns || 80) - 1);
      process.stderr.write(`\r\x1b[2K${fitting}`);
      this.#progress = fitting;
    } else if (options.always || nowMs - Math.max(this.#progressAtMs, this.#sinceMs) >= 2000) {
      process.stderr.write(`${text}\n`);
    } else return;
    this.#progressAtMs = nowMs;
  }

  /** Leaves the progress line behind. */
  endProgress(): void {
    if (this.#progress === "") return;
    process.stderr.write("\r\x1b[2K");
    this.#progress = "";
  }

  #table({ title, columns, rows }: Result): string {
    const widths = columns.map((column, at) => Math.max(column.length, ...rows.map((row) => (row[at] ?? "").length)));
    const line = (cells: readonly string[], paint: (cell: string, at: number) => string) =>
      cells
        .map((cell, at) => paint(at === cells.length - 1 ? cell : cell.padEnd(widths[at] as number), at))
        .join("  ")
        .trimEnd();
    return [
      ...(title === undefined ? [] : [this.style(title, "bold")]),
      ...(rows.length === 0
        ? []
        : [
            line(columns, (cell) => this.style(cell, "dim")),
            ...rows.map((row) => line(row, (cell, at) => (at === 0 ? this.style(cell, "cyan") : cell))),
          ]),
    ].join("\n");
  }
}
