/** Options of recovery and their limits. Only types reach the browser bundle. */

/** Options of recovery: a lost model is created again from its newest checkpoint, and the calls since then are repeated. */
export interface RecoveryOptions {
  /** Attempts without a successful call in between, after which recovery fails. @defaultValue 5 */
  readonly maxAttempts?: number | undefined;
  /** Wait before the second attempt, in milliseconds; doubled for each further attempt, up to a minute. @defaultValue 1000 */
  readonly backoffMs?: number | undefined;
  /** Interval of asking the server whether the model is corrupted, in milliseconds; it is also asked after each save. @defaultValue 60000 */
  readonly checkEveryMs?: number | undefined;
  /**
   * Limit of the training data kept for repeating, in bytes; each call adds 1 KiB. Above it the oldest calls are dropped, and a model whose newest checkpoint is
   * older than the oldest call that is kept cannot be recovered: save more often. @defaultValue 256 MiB
   */
  readonly maxReplayBytes?: number | undefined;
}
