/** Ends a run whose loss on held-out data no longer falls. */

/**
 * Counts the evaluations since the best one. Its `observe` fits `stopWhen` of the supervised loop; a run that is resumed gets its recorded
 * metrics first.
 *
 * @example
 * ```ts
 * const early = new EarlyStopping(3, await RunFolder.at(folder).readMetrics());
 * for await (const event of runSupervised({ …, keepBest: true, stopWhen: (done) => early.observe(done.metrics) })) …
 * ```
 */
export class EarlyStopping {
  readonly patience: number;
  #best = Number.POSITIVE_INFINITY;
  #worse = 0;

  /** @param patience - evaluations in succession that are not better than the best one. @param recorded - metrics of the run so far */
  constructor(patience: number, recorded: readonly Readonly<Record<string, number>>[] = []) {
    this.patience = patience;
    for (const metrics of recorded) this.observe(metrics);
  }

  /** Adds the metrics of a step. @returns why the run should end, if it should */
  observe(metrics: Readonly<Record<string, number>>): string | undefined {
    const loss = metrics["test/nll"];
    if (loss !== undefined) {
      this.#worse = loss < this.#best ? 0 : this.#worse + 1;
      this.#best = Math.min(this.#best, loss);
    }
    return this.reason;
  }

  get reason(): string | undefined {
    return this.#worse < this.patience ? undefined : `the test loss has not fallen in ${this.patience} evaluations`;
  }
}
