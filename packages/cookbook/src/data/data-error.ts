/** The errors of this package: something in a file that a person wrote, with the place where it stands. */
import { TinkerError } from "@tinklet/sdk";

/** A file of examples or of a run cannot be used as it is. The message begins with `file:line` where there is a line. */
export class DataError extends TinkerError {
  override readonly name = "DataError";
  readonly file: string;
  /** Counted from 1. */
  readonly line: number | undefined;
  /** The sentence without the place in front of it. */
  readonly problem: string;
  constructor(
    place: { readonly file: string; readonly line?: number | undefined },
    problem: string,
    options: { readonly hint?: string | undefined; readonly cause?: unknown } = {},
  ) {
    const at = place.line === undefined ? place.file : `${place.file}:${place.line}`;
    super(`${at}: ${problem}`, { code: "invalid_data", ...options });
    this.file = place.file;
    this.line = place.line;
    this.problem = problem;
  }
}
