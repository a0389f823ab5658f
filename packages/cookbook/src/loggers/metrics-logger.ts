/** Where metrics of a run can go besides its folder: what a logger is. Two are here, TensorBoard and Trackio; others are a function away. */

/** A run whose metrics are logged. */
export interface LoggedRun {
  /** For people; unique only together with the folder. */
  readonly name: string;
  /** The run's folder. */
  readonly folder: string;
  /** What is in its `config.json`. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The first step that will be told. Above 0 the run goes on: steps from here on may have been told before. */
  readonly startStep: number;
}

/** Metrics of a step. A step may have several rows. */
export interface LoggedRow {
  readonly step: number;
  /** When it happened, in milliseconds since the epoch. */
  readonly timeMs: number;
  /** May hold NaN and infinities. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** Writes the rows of one run. */
export interface MetricsWriter {
  /**
   * Writes rows, in the order of the run. One call at a time. What it throws is told once and the rows are tried again a few times,
   * so a row that arrived may come again.
   * @param signal - aborted when it takes too long
   */
  write(rows: readonly LoggedRow[], signal: AbortSignal): Promise<void>;
  /** Called once, after the last rows. */
  close?(): Promise<void>;
}

/**
 * Somewhere that metrics go to.
 *
 * @example
 * ```ts
 * const printer: MetricsLogger = {
 *   name: "printer",
 *   open: (run) => ({ write: async (rows) => console.log(run.name, rows.at(-1)) }),
 * };
 * ```
 */
export interface MetricsLogger {
  /** For warnings. */
  readonly name: string;
  /** Called when a run begins or goes on. */
  open(run: LoggedRun): MetricsWriter | Promise<MetricsWriter>;
}
