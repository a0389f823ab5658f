/**
 * The order in which one model's requests run: by `seq_id`, whatever the order of arrival; a request without a number runs after
 * everything that was known when it came. Pure bookkeeping: no clock, no engine, no store.
 */
import { SortedNumbers } from "./sorted-numbers.ts";

export interface Numbered {
  readonly seq: number | undefined;
}

export class SeqOrder<J extends Numbered> {
  #next: number;
  #highest: number;
  readonly #numbered = new Map<number, J>();
  /** The keys of those. */
  readonly #numbers = new SortedNumbers();
  readonly #consumed = new Set<number>();
  readonly #unnumbered: { readonly job: J; readonly after: number }[] = [];
  /** Taken and put back: these run before everything else, in the order in which they were taken. */
  readonly #returned: J[] = [];

  /** @param next - the first number that has not run. */
  constructor(next: number) {
    this.#next = next;
    this.#highest = next - 1;
  }

  /** The first number that has not run. */
  get next(): number {
    let next = this.#next;
    for (const { seq } of this.#returned) next = Math.min(next, seq ?? next);
    return next;
  }

  /** How many requests wait here. */
  get size(): number {
    return this.#numbered.size + this.#unnumbered.length + this.#returned.length;
  }

  add(job: J): void {
    if (job.seq === undefined) {
      this.#unnumbered.push({ job, after: this.#highest });
      return;
    }
    if (!this.#numbered.has(job.seq)) this.#numbers.add(job.seq);
    this.#numbered.set(job.seq, job);
    this.#highest = Math.max(this.#highest, job.seq);
  }

  /** A number that will never run: nothing waits for it. */
  consume(seq: number): void {
    if (seq < this.#next) return;
    this.#consumed.add(seq);
    this.#highest = Math.max(this.#highest, seq);
    this.#advance();
  }

  /** What comes next, whether or not it may run. */
  get first(): J | undefined {
    const { lowest } = this.#numbers;
    return this.peek() ?? (lowest === undefined ? this.#unnumbered[0]?.job : this.#numbered.get(lowest));
  }

  /** What may run now. */
  peek(): J | undefined {
    if (this.#returned.length > 0) return this.#returned[0];
    const first = this.#unnumbered[0];
    if (first !== undefined && first.after < this.#next) return first.job;
    return this.#numbered.get(this.#next);
  }

  /** Takes what {@link peek} shows. */
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

  /** Undoes {@link take}: the request did not run after all. */
  putBack(job: J): void {
    const { seq } = job;
    const at = seq === undefined ? -1 : this.#returned.findIndex((other) => other.seq !== undefined && other.seq > seq);
    this.#returned.splice(at < 0 ? this.#returned.length : at, 0, job);
  }

  /** The number that everything here waits for, if it has not come. */
  get missing(): number | undefined {
    return this.size > 0 && this.peek() === undefined ? this.#next : undefined;
  }

  /** Gives the missing number up and goes on with the lowest that is here. Returns the numbers skipped, last one excluded. */
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

  /** How many requests run before this one. */
  ahead(job: J): number {
    const { seq } = job;
    return seq === undefined ? this.size - 1 : this.#numbers.countBelow(seq) + this.#returned.length;
  }

  #advance(): void {
    while (this.#consumed.delete(this.#next)) this.#next++;
  }
}
