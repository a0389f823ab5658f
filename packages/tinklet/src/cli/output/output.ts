/**
 * What a person or a program sees: results on stdout as a table or as JSON, everything else on stderr. Knows terminals,
 * colours and the one line that is written over while something goes on. The only place that writes text of servers: it takes keys
 * out, and escape sequences that are not its own.
 */
import { randomBytes } from "node:crypto";
import { environment, Redactor } from "@tinklet/sdk/environment";
import type { Input } from "../parse.ts";
import { oneLine, printable, printableJson } from "./printable.ts";

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

/** Begins this process's own styles until they are written. Text from elsewhere cannot hold it. */
const mark = `\u0000${randomBytes(8).toString("hex")}:`;
const marks = new RegExp(`(${mark}[0-9;]+m)`);
const styled = (text: string): string => text.replaceAll(mark, "\x1b[");

/** What stands for the one local user, and is no secret. */
export const localKey = "tml-local";

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

  /** Keeps keys out of everything that is written from now on. */
  hide(...keys: readonly (string | undefined)[]): void {
    const redactor = new Redactor();
    for (const key of keys) if (key !== localKey) redactor.add(key);
    this.#redactors.push(redactor);
  }

  /** Keeps what a client learns to be secret out, too. */
  hideWith(redactor: Pick<Redactor, "known">): void {
    this.#redactors.push(redactor);
  }

  #redacted(text: string): string {
    return this.#redactors.reduce((clean, redactor) => redactor.known(clean), text);
  }

  /** What may be shown of a text, with this process's own styles. */
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

  /** Text on stdout that is a result by itself (what a model wrote, a file): exact in a pipe, printable on a terminal. */
  data(text: string): void {
    const exact = styled(this.#redacted(text));
    process.stdout.write(process.stdout.isTTY === true ? this.#shown(text.replaceAll("\r\n", "\n")) : exact);
  }

  /** One value of a stream of results; only written as JSON. */
  event(value: unknown): void {
    if (this.isJson) process.stdout.write(`${this.#json(value)}\n`);
  }

  /** Something worth knowing that is no result. */
  note(text: string): void {
    if (this.settings.quiet) return;
    this.ask(text);
  }

  /** A line on stderr that even `--quiet` shows: what belongs to a question. */
  ask(text: string): void {
    this.endProgress();
    process.stderr.write(`${this.#shown(text)}\n`);
  }

  error({ message, details = [] }: Explained): void {
    this.ask([`Error: ${message}`, ...details].join("\n"));
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

  /** Leaves the progress line behind. */
  endProgress(): void {
    if (this.#progress === "") return;
    process.stderr.write("\r\x1b[2K");
    this.#progress = "";
  }

  #table({ title, columns, rows: given }: Result): string {
    const rows = given.map((cells) => cells.map(oneLine)); // a line break in a cell would look like a row
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
