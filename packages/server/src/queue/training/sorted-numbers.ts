/**
 * A sorted set of integers, fast for adding the highest and removing the lowest. A queue position is a binary search, because every poll
 * asks for one.
 */
export class SortedNumbers {
  #numbers: number[] = [];
  /** Index of the lowest number; the numbers before it were removed. */
  #head = 0;

  get size(): number {
    return this.#numbers.length - this.#head;
  }

  get lowest(): number | undefined {
    return this.#numbers[this.#head];
  }

  /** How many numbers are lower than `number`. */
  countBelow(number: number): number {
    return this.#at(number) - this.#head;
  }

  /** Adds a number that is not in the set. */
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

  /** Index of the first number that is not lower than `number`. */
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
