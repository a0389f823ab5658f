/** The error for data: a file of examples or a run folder, with file and line. */
import { TinkerError } from "@tinklet/sdk";

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
    options: { readonly hint?: string | undefined; readonly cause?: unknown } = {},
  ) {
    const file = place.file ?? "example";
    const at = place.line === undefined ? file : `${file}:${place.line}`;
    super(`${at}: ${problem}`, { code: "invalid_data", ...options });
    this.file = place.file;
    this.line = place.line;
    this.problem = problem;
  }
}
