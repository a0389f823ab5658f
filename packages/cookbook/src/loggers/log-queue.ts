/**
 * The queue between a run and a logger, so that the logger can neither stop nor slow the run: rows wait in a bounded queue and are
 * written in the background, every write has a time limit, and a failure is reported once and counted.
 */
import { type Clock, systemClock } from "@tinklet/sdk";
import type { LoggedRow, LoggedRun, MetricsLogger, MetricsWriter } from "./metrics-logger.ts";

/** Options of a queue. */
export interface LogQueueOptions {
  /** Rows that wait at most; beyond it the oldest are dropped and counted. @defaultValue 1000 */
  readonly maxRows?: number;
  /** How long one write may take. @defaultValue 30 s */
  readonly writeLimitMs?: number;
  /** How long the end of a run waits for rows that are still to be written. @defaultValue 5 s */
  readonly closeLimitMs?: number;
  /** Called with a warning: once when a logger first fails, once at the end when rows were dropped. @defaultValue `console.warn` */
  readonly onWarning?: (text: string) => void;
  /** @defaultValue the machine's clock */
  readonly clock?: Clock;
}

/** Attempts to write rows before they are dropped. */
const mostTries = 5;
/** Rows of one write. */
const largestBatch = 100;

/** The queue of one logger for one run. */
export class LogQueue {
  readonly #logger: MetricsLogger;
  readonly #run: LoggedRun;
  readonly #clock: Clock;
  readonly #options: Required<Omit<LogQueueOptions, "clock">>;
  #rows: LoggedRow[] = [];
  #writer: MetricsWriter | undefined;
  #working: Promise<void> | undefined;
  #closing = false;
  #givenUp = false;
  #hasWarned = false;
  #dropped = 0;
  /** The write that is under way. */
  #current: { readonly rows: number; readonly controller: AbortController } | undefined;
  readonly #hurry = new AbortController();

  constructor(logger: MetricsLogger, run: LoggedRun, options: LogQueueOptions = {}) {
    this.#logger = logger;
    this.#run = run;
    this.#clock = options.clock ?? systemClock({ ref: true });
    this.#options = {
      maxRows: options.maxRows ?? 1000,
      writeLimitMs: options.writeLimitMs ?? 30_000,
      closeLimitMs: options.closeLimitMs ?? 5_000,
      onWarning: options.onWarning ?? console.warn,
    };
  }

  /** Rows that were not logged. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Adds a row; never waits and never throws. */
  push(row: LoggedRow): void {
    if (this.#closing) return;
    this.#rows.push(row);
    this.#shorten(this.#options.maxRows);
    this.#working ??= this.#work();
  }

  /** Waits for the remaining rows, at most `closeLimitMs`, and reports how many were dropped. Never throws. */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    this.#hurry.abort(); // a write in its back-off makes its last attempt now
    let cancel = () => {};
    const limit = new Promise<void>((resolve) => {
      cancel = this.#clock.timer(this.#options.closeLimitMs, resolve);
    });
    const rest = (async () => {
      await this.#working;
      await this.#writer?.close?.();
    })().catch((cause: unknown) => this.#warn(cause));
    await Promise.race([rest, limit]);
    cancel();
    this.#givenUp = true;
    this.#dropped += this.#current?.rows ?? 0;
    this.#current?.controller.abort(new Error("the run has ended"));
    this.#shorten(0);
    if (this.#dropped > 0)
      this.#tell(`${this.#logger.name}: ${this.#dropped} rows of ${this.#run.name} were not logged`);
  }

  /** Writes until nothing is left. One at a time; never throws. */
  async #work(): Promise<void> {
    await Promise.resolve(); // a row that is pushed together with others is written with them
    for (let tries = 0; this.#rows.length > 0 && !this.#givenUp; ) {
      const batch = this.#rows.splice(0, largestBatch);
      const cause = await this.#write(batch);
      if (this.#givenUp) return; // counted already
      if (cause === undefined) {
        tries = 0;
        continue;
      }
      this.#warn(cause);
      tries += 1;
      if (tries >= mostTries || this.#closing) {
        this.#dropped += batch.length;
        tries = 0;
        continue;
      }
      this.#rows.unshift(...batch);
      this.#shorten(this.#options.maxRows);
      await this.#clock.sleep(1000 * 2 ** tries, this.#hurry.signal).catch(() => {});
    }
    this.#working = undefined;
  }

  /** @returns why it failed. */
  async #write(batch: readonly LoggedRow[]): Promise<unknown> {
    const { writeLimitMs } = this.#options;
    const controller = new AbortController();
    const { signal } = controller;
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
    const cancel = this.#clock.timer(writeLimitMs, () =>
      controller.abort(new Error(`a write took more than ${writeLimitMs} ms`)),
    );
    this.#current = { rows: batch.length, controller };
    const written = (async () => {
      this.#writer ??= await this.#logger.open(this.#run);
      await this.#writer.write(batch, signal);
    })();
    written.catch(() => {}); // a late failure has no reader
    try {
      await Promise.race([written, aborted]);
      return undefined;
    } catch (cause) {
      return cause ?? new Error("failed");
    } finally {
      cancel();
      this.#current = undefined;
    }
  }

  #shorten(most: number): void {
    const many = this.#rows.length - most;
    if (many <= 0) return;
    this.#rows.splice(0, many);
    this.#dropped += many;
  }

  #warn(cause: unknown): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const said = cause instanceof Error ? cause.message : String(cause);
    this.#tell(`${this.#logger.name}: ${said}. The run continues; its own files have every row.`);
  }

  #tell(text: string): void {
    try {
      this.#options.onWarning(text);
    } catch {
      // not even a warning may stop a run
    }
  }
}
