/**
 * The one scheduler of a simulation: virtual time, and a heap of events that the seed orders. Timers, network hops, disk operations and
 * engine calls are events. An event has an owner, a process of the simulation; when its owner dies, its events never happen.
 */
import type { Clock } from "@tinklet/wire/clock";
import { hashText, mix, Random } from "./random.ts";

/** A process of the simulation: one client, or one incarnation of the server. */
export interface Owner {
  readonly name: string;
  alive: boolean;
  /** Milliseconds that its wall clock is ahead of the simulation's. */
  skewMs: number;
}

export const newOwner = (name: string): Owner => ({ name, alive: true, skewMs: 0 });

interface Event {
  readonly due: number;
  readonly tie: number;
  readonly label: string;
  readonly owner: Owner;
  run: (() => void) | undefined;
}

/** 2026-01-01. */
const epochMs = 1_767_225_600_000;

/** Lines of the trace that are kept for a failure. */
const keptLines = 400;

const before = (a: Event, b: Event): boolean => a.due < b.due || (a.due === b.due && a.tie < b.tie);

export class Scheduler {
  readonly #random: Random;
  readonly #heap: Event[] = [];
  #now = 0;
  #digest = 0;
  #count = 0;
  readonly #lines: string[] = [];
  readonly #everyLine: ((line: string) => void) | undefined;

  constructor(seed: number, everyLine?: (line: string) => void) {
    this.#random = new Random(seed, "scheduler");
    this.#everyLine = everyLine;
  }

  /** Virtual milliseconds since the start. */
  get now(): number {
    return this.#now;
  }

  /** Events that have happened. */
  get count(): number {
    return this.#count;
  }

  /** A number that is equal for equal traces. */
  get digest(): number {
    return this.#digest;
  }

  get lastLines(): readonly string[] {
    return this.#lines;
  }

  /** Events of living owners that are still to happen, by label. */
  pending(): string[] {
    return this.#heap
      .filter((event) => event.run !== undefined && event.owner.alive)
      .map((e) => `${e.owner.name} ${e.label}`);
  }

  note(line: string): void {
    const text = `${this.#now.toFixed(1)} ${line}`;
    this.#digest = mix(this.#digest, hashText(text));
    this.#lines.push(text);
    if (this.#lines.length > 2 * keptLines) this.#lines.splice(0, keptLines);
    this.#everyLine?.(text);
  }

  /** Schedules an event; returns a function that cancels it. */
  after(owner: Owner, ms: number, label: string, run: () => void): () => void {
    const event: Event = { due: this.#now + Math.max(ms, 0), tie: this.#random.fraction(), label, owner, run };
    this.#push(event);
    return () => {
      event.run = undefined;
    };
  }

  clock(owner: Owner): Clock {
    const timer = (ms: number, run: () => void) =>
      this.after(
        owner,
        ms,
        process.env["SIM_STACKS"] === undefined
          ? "timer"
          : `timer ${new Error().stack?.split("\n").slice(2, 9).join("")}`,
        run,
      );
    return {
      now: () => epochMs + Math.floor(this.#now) + owner.skewMs,
      monotonic: () => this.#now,
      timer,
      sleep: (ms, signal) =>
        new Promise((resolve, reject) => {
          if (signal?.aborted) return reject(signal.reason);
          const abort = () => {
            cancel();
            reject(signal?.reason);
          };
          const cancel = timer(ms, () => {
            signal?.removeEventListener("abort", abort);
            resolve();
          });
          signal?.addEventListener("abort", abort, { once: true });
        }),
    };
  }

  /** Runs events until `over` says so. @returns false when nothing is left to happen, or `limitMs` has passed, before that */
  async run(over: () => boolean, limitMs: number): Promise<boolean> {
    for (;;) {
      await quiet();
      if (over()) return true;
      let event = this.#pop();
      while (event !== undefined && (event.run === undefined || !event.owner.alive)) event = this.#pop();
      if (event?.run === undefined) return false;
      if (event.due > limitMs) {
        this.#push(event);
        return false;
      }
      this.#now = Math.max(this.#now, event.due);
      this.#count++;
      if (!event.label.startsWith("timer")) this.note(`${event.owner.name} ${event.label}`);
      const { run } = event;
      event.run = undefined;
      run();
    }
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(event, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): Event | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
      if (!before(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

/** Resolves when every promise that can settle without an event has settled: one turn of the event loop runs all microtasks. */
export const quiet = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
