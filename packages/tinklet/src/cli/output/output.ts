/**
 * Writes results to stdout as a table or as JSON, and notes, progress and errors to stderr. All output goes through this class, because
 * it removes keys and the escape sequences in text of servers, models and files.
 */
import { randomBytes } from "node:crypto";
import { environment, Redactor } from "@tinklet/sdk/environment";
import { localKey } from "@tinklet/wire/running-server";
import type { Input } from "../parse.ts";
import { oneLine, printable, printableJson } from "./printable.ts";

/** A result for both formats. */
export interface Result {
  readonly json: unknown;
  readonly title?: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** An error message with details and hints. */
export interface Explained {
  readonly message: string;
  readonly details?: readonly string[];
}

const codes = { dim: 2, bold: 1, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 96, gray: 90 } as const;
export type Style = keyof typeof codes;

/** Placeholder of an escape sequence of this process. It is random, so that other text cannot contain it. */
const mark = `\u0000${randomBytes(8).toString("hex")}:`;
const marks = new RegExp(`(${mark}[0-9;]+m)`);
const styled = (text: string): string => text.replaceAll(mark, "\x1b[");

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
  /** Time of the first progress text; without a terminal, the first line is written two seconds later. */
  #sinceMs: number | undefined;
  readonly #redactors: Pick<Redactor, "known">[] = [];

  constructor(settings: OutputSettings) {
    this.settings = settings;
  }

  static of(input: Input): Output {
    const { NO_COLOR = "", FORCE_COLOR = "" } = process.env;
    const wanted = FORCE_COLOR !== "" || process.stdout.isTTY === true;
    const output = new Output({
      format: input.flag("json") || input.text("format") === "json" ? "json" : "table",
      quiet: input.flag("quiet"),
      color: wanted && NO_COLOR === "" && !input.flag("no-color"),
    });
    output.hide(input.text("api-key"), environment("TINKER_API_KEY"), environment("HF_TOKEN"));
    return output;
  }

  /** Redacts these keys in all further output. */
  hide(...keys: readonly (string | undefined)[]): void {
    const redactor = new Redactor();
    for (const key of keys) if (key !== localKey) redactor.add(key);
    this.#redactors.push(redactor);
  }

  /** Redacts the secrets of a client in all further output. */
  hideWith(redactor: Pick<Redactor, "known">): void {
    this.#redactors.push(redactor);
  }

  #redacted(text: string): string {
    return this.#redactors.reduce((clean, redactor) => redactor.known(clean), text);
  }

  /** The text with control characters escaped and keys redacted, and with the styles of this process. */
  #shown(text: string): string {
    const parts = this.#redacted(text).split(marks);
    return parts.map((part, at) => (at % 2 === 1 ? styled(part) : printable(part))).join("");
  }

  #json(value: unknown, indent?: number): string {
    return printableJson(this.#redacted(JSON.stringify(value, null, indent)));
  }

  get isJson(): boolean {
    return this.settings.format === "json";
  }

  /** Whether stderr is a terminal on which a progress line can be overwritten. */
  get isLive(): boolean {
    return process.stderr.isTTY === true && !this.settings.quiet && !this.isJson;
  }

  /** Columns of the terminal. */
  get width(): number {
    return process.stdout.columns || 80; // 0 if the terminal does not report its width
  }

  style(text: string, ...styles: readonly Style[]): string {
    if (!this.settings.color || styles.length === 0) return text;
    return `${mark}${styles.map((style) => codes[style]).join(";")}m${text}${mark}0m`;
  }

  /** A result: a table, or one JSON document. */
  result(result: Result): void {
    this.endProgress();
    if (this.isJson) process.stdout.write(`${this.#json(result.json, 2)}\n`);
    else this.line(this.#table(result));
  }

  /** A line on stdout. */
  line(text = ""): void {
    this.endProgress();
    process.stdout.write(`${this.#shown(text)}\n`);
  }

  /** Writes text that is itself the result (a sample, a file): unchanged to a pipe, escaped on a terminal. */
  data(text: string): void {
    const exact = styled(this.#redacted(text));
    process.stdout.write(process.stdout.isTTY === true ? this.#shown(text.replaceAll("\r\n", "\n")) : exact);
  }

  /** One JSON line of a stream of results; nothing in the table format. */
  event(value: unknown): void {
    if (this.isJson) process.stdout.write(`${this.#json(value)}\n`);
  }

  /** A line on stderr, which `--quiet` hides. */
  note(text: string): void {
    if (this.settings.quiet) return;
    this.ask(text);
  }

  /** A line on stderr that `--quiet` does not hide, for questions and errors. */
  ask(text: string): void {
    this.endProgress();
    process.stderr.write(`${this.#shown(text)}\n`);
  }

  error({ message, details = [] }: Explained): void {
    this.ask([`Error: ${message}`, ...details].join("\n"));
  }

  /**
   * Shows progress: on a terminal one line that is overwritten, otherwise at most one line every two seconds. Nothing with JSON or
   * `--quiet`.
   */
  progress(text: string, options: { readonly always?: boolean } = {}): void {
    if (this.settings.quiet || this.isJson) return;
    const nowMs = performance.now();
    this.#sinceMs ??= nowMs;
    if (this.isLive) {
      if (!options.always && nowMs - this.#progressAtMs < 80) return;
      const fitting = this.#shown(text)
        .replaceAll("\n", " ")
        .slice(0, (process.stderr.columns || 80) - 1);
      process.stderr.write(`\r\x1b[2K${fitting}`);
      this.#progress = fitting;
    } else if (options.always || nowMs - Math.max(this.#progressAtMs, this.#sinceMs) >= 2000) {
      process.stderr.write(`${this.#shown(text)}\n`);
    } else return;
    this.#progressAtMs = nowMs;
  }

  /** Clears the progress line. */
  endProgress(): void {
    if (this.#progress === "") return;
    process.stderr.write("\r\x1b[2K");
    this.#progress = "";
  }

  #table({ title, columns, rows: given }: Result): string {
    const rows = given.map((cells) => cells.map(oneLine)); // escapes line breaks, which would look like further rows
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
