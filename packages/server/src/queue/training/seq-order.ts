/**
 * The order in which the requests of one model run: by `seq_id`, independent of the order of arrival. A request without a seq_id runs
 * after all requests that had arrived before it.
 */
import { SortedNumbers } from "./sorted-numbers.ts";

export interface Numbered {
  readonly seq: number | undefined;
}

export class SeqOrder<J extends Numbered> {
  #next: number;
  #highest: number;
  readonly #numbered = new Map<number, J>();
  /** The keys of `#numbered`. */
  readonly #numbers = new SortedNumbers();
  readonly #consumed = new Set<number>();
  readonly #unnumbered: { readonly job: J; readonly after: number }[] = [];
  /** Requests that were put back, or whose seq_id was skipped. They run first, in the order of their seq_ids. */
  readonly #returned: J[] = [];

  /** @param next - the lowest seq_id that has not run. */
  constructor(next: number) {
    this.#next = next;
    this.#highest = next - 1;
  }

  /** The lowest seq_id that has not run. */
  get next(): number {
    let next = this.#next;
    for (const { seq } of this.#returned) next = Math.min(next, seq ?? next);
    return next;
  }

  /** Number of waiting requests. */
  get size(): number {
    return this.#numbered.size + this.#unnumbered.length + this.#returned.length;
  }

  add(job: J): void {
    if (job.seq === undefined) {
      this.#unnumbered.push({ job, after: this.#highest });
      return;
    }
    // Its seq_id was skipped while the request was being accepted, or before a restart while it was running.
    if (job.seq < this.#next) {
      this.putBack(job);
      return;
    }
    if (!this.#numbered.has(job.seq)) this.#numbers.add(job.seq);
    this.#numbered.set(job.seq, job);
    this.#highest = Math.max(this.#highest, job.seq);
  }

  /** Marks a seq_id that will never run, so that no request waits for it. */
  consume(seq: number): void {
    if (seq < this.#next) return;
    this.#consumed.add(seq);
    this.#highest = Math.max(this.#highest, seq);
    this.#advance();
  }

  /** The first waiting request, which may still wait for a missing seq_id. */
  get first(): J | undefined {
    const { lowest } = this.#numbers;
    return this.peek() ?? (lowest === undefined ? this.#unnumbered[0]?.job : this.#numbered.get(lowest));
  }

  /** The request that may run now. */
  peek(): J | undefined {
    if (this.#returned.length > 0) return this.#returned[0];
    const first = this.#unnumbered[0];
    if (first !== undefined && first.after < this.#next) return first.job;
    return this.#numbered.get(this.#next);
  }

  /** Removes and returns the request that {@link peek} returns. */
  take(): J | undefined {
    const job = this.peek();
    if (job === undefined) return undefined;
    if (job === this.#returned[0]) this.#returned.shift();
    else if (job.seq === undefined) this.#unnumbered.shift();
    else {
      this.#numbered.delete(job.seq);
      this.#numbers.delete(job.seq);
      this.#next = job.seq + 1;
      this.#advance();
    }
    return job;
  }

  /** Undoes {@link take} for a request that did not run. */
  putBack(job: J): void {
    const { seq } = job;
    const at = seq === undefined ? -1 : this.#returned.findIndex((other) => other.seq !== undefined && other.seq > seq);
    this.#returned.splice(at < 0 ? this.#returned.length : at, 0, job);
  }

  /** The missing seq_id that all waiting requests wait for; `undefined` when a request may run. */
  get missing(): number | undefined {
    return this.size > 0 && this.peek() === undefined ? this.#next : undefined;
  }

  /** Skips to the lowest seq_id that is present. Returns the skipped range; `to` is exclusive. */
  skipMissing(): { readonly from: number; readonly to: number } | undefined {
    const from = this.missing;
    if (from === undefined) return undefined;
    let to = this.#numbers.lowest ?? Number.POSITIVE_INFINITY;
    for (const seq of this.#consumed) to = Math.min(to, seq);
    for (const { after } of this.#unnumbered) to = Math.min(to, after + 1);
    this.#next = to;
    this.#advance();
    return { from, to };
  }

  /** Number of requests that run before this one. */
  ahead(job: J): number {
    const { seq } = job;
    return seq === undefined ? this.size - 1 : this.#numbers.countBelow(seq) + this.#returned.length;
  }

  #advance(): void {
    while (this.#consumed.delete(this.#next)) this.#next++;
  }
}
