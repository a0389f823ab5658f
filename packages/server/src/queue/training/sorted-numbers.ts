/**
 * Numbers in order, of which mostly the highest is added and the lowest taken: a place in a line is found without walking it, since every
 * poll asks for one.
 */
export class SortedNumbers {
  #numbers: number[] = [];
  /** Where the lowest is; those before it were taken. */
  #head = 0;

  get size(): number {
    return this.#numbers.length - this.#head;
  }

  get lowest(): number | undefined {
    return this.#numbers[this.#head];
  }

  /** How many are lower. */
  countBelow(number: number): number {
    return this.#at(number) - this.#head;
  }

  /** Adds one that is not there yet. */
  add(number: number): void {
    const highest = this.#numbers.at(-1);
    if (this.size === 0 || highest === undefined || number > highest) this.#numbers.push(number);
    else this.#numbers.splice(this.#at(number), 0, number);
  }

  delete(number: number): void {
    const at = this.#at(number);
    if (this.#numbers[at] !== number) return;
    if (at > this.#head) this.#numbers.splice(at, 1);
    else if (++this.#head > 1000 && 2 * this.#head > this.#numbers.length) {
      this.#numbers = this.#numbers.slice(this.#head);
      this.#head = 0;
    }
  }

  /** The place of the first that is not lower. */
  #at(number: number): number {
    let [from, to] = [this.#head, this.#numbers.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#numbers[middle]! < number) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
