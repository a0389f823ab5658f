/** The interface of loggers, which receive the metrics of a run in addition to its folder. TensorBoard and Trackio are built in. */

/** A run whose metrics are logged. */
export interface LoggedRun {
  /** For people; unique only together with the folder. */
  readonly name: string;
  /** The run's folder. */
  readonly folder: string;
  /** The contents of its `config.json`. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The first step that will be logged. Above 0 the run is resumed: later steps may have been logged before. */
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
   * Writes rows, in the order of the run. One call at a time. An error is reported once and the rows are written again a few times,
   * so a row may arrive twice.
   * @param signal - aborted when it takes too long
   */
  write(rows: readonly LoggedRow[], signal: AbortSignal): Promise<void>;
  /** Called once, after the last rows. */
  close?(): Promise<void>;
}

/**
 * A destination of metrics.
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
  /** Called when a run starts or resumes. */
  open(run: LoggedRun): MetricsWriter | Promise<MetricsWriter>;
}
