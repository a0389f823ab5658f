/** The error for data: a file of examples or a run folder, with file and line. */
import { type Hint, TinkerError } from "@tinklet/sdk";

/** Examples or a run folder cannot be used. The message begins with `file:line`, where they are known. */
export class DataError extends TinkerError {
  override readonly name = "DataError";
  /** Absent for an example that a program made. */
  readonly file: string | undefined;
  /** Counted from 1. */
  readonly line: number | undefined;
  /** The message without file and line. */
  readonly problem: string;
  constructor(
    place: { readonly file?: string | undefined; readonly line?: number | undefined },
    problem: string,
    options: { readonly hint?: Hint | undefined; readonly cause?: unknown } = {},
  ) {
    const file = place.file ?? "example";
    const at = place.line === undefined ? file : `${file}:${place.line}`;
    super(`${at}: ${problem}`, { code: "invalid_data", ...options });
    this.file = place.file;
    this.line = place.line;
    this.problem = problem;
  }
}

/** Maximum number of invalid lines that one error lists. */
const listedLines = 20;
/** Reading stops after this many invalid lines. */
const maxInvalid = 1000;

/** Collects the invalid lines of a source, so that one error lists them all. */
export class InvalidLines {
  readonly #errors: DataError[] = [];

  /** Adds the error of one line. @throws the error itself if it is not a {@link DataError} of a line; all errors after 1,000 lines */
  add(error: unknown): void {
    if (!(error instanceof DataError) || error.line === undefined) throw error;
    this.#errors.push(error);
    if (this.#errors.length >= maxInvalid) this.throwIfAny();
  }

  /** @throws {@link DataError} with all invalid lines, grouped by problem */
  throwIfAny(): void {
    const [first] = this.#errors;
    if (first === undefined) return;
    if (this.#errors.length === 1) throw first;
    const groups = new Map<string, { readonly problem: string; readonly lines: number[] }>();
    for (const { problem, line = 0 } of this.#errors.slice(0, listedLines)) {
      const kind = problem.replace(/( \(its (keys|roles))?: .*/s, "");
      const group = groups.get(kind);
      if (group === undefined) groups.set(kind, { problem, lines: [line] });
      else group.lines.push(line);
    }
    const rows = [...groups].map(([kind, { problem, lines }]) =>
      lines.length === 1 ? `line ${lines[0]} ${problem}` : `lines ${lines.join(", ")}: each ${kind}`,
    );
    const more = this.#errors.length - listedLines;
    const count = this.#errors.length >= maxInvalid ? `at least ${maxInvalid}` : String(this.#errors.length);
    const listed = [...rows, ...(more > 0 ? [`and ${more} more`] : [])].map((row) => `\n  ${row}`).join("");
    throw new DataError({ file: first.file }, `${count} lines are invalid:${listed}`, {
      hint: first.hintParts,
      cause: first,
    });
  }
}

/** Converts all items; one error lists all that are invalid. */
export function convertAll<T, R>(items: readonly T[], convert: (item: T, at: number) => R): R[] {
  const invalid = new InvalidLines();
  const converted: R[] = [];
  for (const [at, item] of items.entries()) {
    try {
      converted.push(convert(item, at));
    } catch (error) {
      invalid.add(error);
    }
  }
  invalid.throwIfAny();
  return converted;
}
