/**
 * A sandbox for programs of a model: JavaScript that runs in a WebAssembly engine on threads of its own, with limits of time, memory, calls
 * and stack. `sandbox-worker.mjs` runs a program; this file has the pool of threads, the bounds of what is sent to them, and the time limit,
 * which ends the thread. A program cannot reach files, the network, timers or this process.
 */
import { Worker } from "node:worker_threads";
import { type Clock, InvalidInputError, systemClock } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";

/** A test of a program: a function of it, called with arguments, must return a value. Arguments and value are JSON. */
export interface CodeTest {
  /** Name of the function. */
  readonly call: string;
  readonly args: readonly unknown[];
  /** Compared as data; numbers up to a relative 1e-9. */
  readonly expected: unknown;
}

/** The outcome of one test. */
export interface TestOutcome {
  readonly outcome: "passed" | "wrong" | "threw";
  /** The error, where it threw: at most 200 characters, written by the program. */
  readonly message?: string;
}

/** Result of {@link Sandbox.grade}. */
export interface GradedProgram {
  /** Share of the tests that passed. */
  readonly share: number;
  /** One per test that ran, in order. */
  readonly outcomes: readonly TestOutcome[];
  /**
   * Why the remaining tests did not run: `ticks` (too many calls and jumps), `time`, `crashed` (the engine ended), or `size` (the program
   * was too long to run). Absent where all ran.
   */
  readonly ended?: "ticks" | "time" | "crashed" | "size";
}

/** Options of {@link createSandbox}. */
export interface SandboxOptions {
  /** Threads, each of which runs one program at a time. @defaultValue 2 */
  readonly threads?: number;
  /**
   * Calls and jumps that a program may make with all of its tests, in units of about 10,000. This limit does not depend on the speed of the
   * machine, so that a grade can be repeated. @defaultValue 200
   */
  readonly maxTicks?: number;
  /** Time of a program with all of its tests, in milliseconds. For what makes no calls, for example a huge string. @defaultValue 1,000 */
  readonly timeLimitMs?: number;
  /** Memory of a program, in bytes. @defaultValue 16 MiB */
  readonly memoryBytes?: number;
  /** Longest program, in characters. @defaultValue 65,536 */
  readonly maxLength?: number;
  /** @defaultValue the system's */
  readonly clock?: Clock;
}

const optionNames: OptionNames<SandboxOptions> = {
  threads: true,
  maxTicks: true,
  timeLimitMs: true,
  memoryBytes: true,
  maxLength: true,
  clock: true,
};

/** Runs programs. Close it when it is no longer needed; its threads do not keep the process alive. */
export interface Sandbox {
  /**
   * Runs a program and its tests, in order, in an engine of their own. A program that fails has a lower share; it never rejects for one.
   *
   * @throws InvalidInputError for a test that is not usable; the signal's reason when aborted; Error when the sandbox is closed.
   */
  grade(program: string, tests: readonly CodeTest[], signal?: AbortSignal): Promise<GradedProgram>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * A sandbox with threads that start when they are needed.
 *
 * @throws InvalidInputError for options that are unknown or out of range.
 *
 * @example
 * ```ts
 * await using sandbox = createSandbox();
 * const { share } = await sandbox.grade("const f = (x) => x * 2;", [{ call: "f", args: [4], expected: 8 }]);
 * ```
 */
export function createSandbox(options: SandboxOptions = {}): Sandbox {
  checkOptions("createSandbox", options, optionNames);
  const limits = {
    threads: inRange("threads", options.threads ?? 2, 1, 64),
    maxTicks: inRange("maxTicks", options.maxTicks ?? 200, 1, 1e6),
    timeLimitMs: inRange("timeLimitMs", options.timeLimitMs ?? 1_000, 10, 600_000),
    memoryBytes: inRange("memoryBytes", options.memoryBytes ?? 16 * 2 ** 20, 2 ** 20, 2 ** 30),
    maxLength: inRange("maxLength", options.maxLength ?? 65_536, 1, 2 ** 20),
  };
  return new ThreadPool({ ...limits, clock: options.clock ?? systemClock() });
}

function inRange(name: string, value: number, least: number, most: number): number {
  if (!Number.isInteger(value) || value < least || value > most)
    throw new InvalidInputError(name, `must be an integer from ${least} to ${most}, got ${value}`);
  return value;
}

type Reply = Pick<GradedProgram, "outcomes" | "ended">;

interface Waiting {
  readonly begin: (thread: Thread) => void;
  readonly fail: (error: Error) => void;
}

class ThreadPool implements Sandbox {
  readonly #limits: Required<SandboxOptions>;
  readonly #idle: Thread[] = [];
  readonly #busy = new Set<Thread>();
  readonly #queue: Waiting[] = [];
  #isClosed = false;

  constructor(limits: Required<SandboxOptions>) {
    this.#limits = limits;
  }

  async grade(program: string, tests: readonly CodeTest[], signal?: AbortSignal): Promise<GradedProgram> {
    for (const test of tests) checkTest(test);
    signal?.throwIfAborted();
    const { maxLength, maxTicks, memoryBytes, timeLimitMs, clock } = this.#limits;
    if (program.length > maxLength) return { share: 0, outcomes: [], ended: "size" };
    const thread = await this.#thread();
    try {
      signal?.throwIfAborted();
      const reply = await thread.ask({ source: program, tests, maxTicks, memoryBytes }, timeLimitMs, clock);
      if (this.#isClosed) throw closed();
      const passed = reply.outcomes.filter(({ outcome }) => outcome === "passed").length;
      return { share: tests.length === 0 ? 0 : passed / tests.length, ...reply };
    } finally {
      this.#release(thread);
    }
  }

  /** An idle thread, a new one below the limit, or the next that is released. */
  #thread(): Promise<Thread> {
    if (this.#isClosed) return Promise.reject(closed());
    return new Promise((resolve, fail) => {
      const begin = (thread: Thread) => {
        this.#busy.add(thread);
        resolve(thread);
      };
      const idle = this.#idle.pop();
      if (idle !== undefined) begin(idle);
      else if (this.#busy.size < this.#limits.threads) begin(new Thread());
      else this.#queue.push({ begin, fail });
    });
  }

  #release(thread: Thread): void {
    this.#busy.delete(thread);
    if (this.#isClosed) return;
    const next = this.#queue.shift();
    if (next !== undefined) next.begin(thread.isUsable ? thread : new Thread());
    else if (thread.isUsable) this.#idle.push(thread);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { fail } of this.#queue.splice(0)) fail(closed());
    await Promise.all([...this.#busy, ...this.#idle.splice(0)].map((thread) => thread.end()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const closed = () => new Error("the sandbox is closed; make a new one with createSandbox()");

/** A thread. One that ran into the time limit or ended is not used again. */
class Thread {
  isUsable = true;
  readonly #worker: Worker;
  /** Resolves once programs can run: the time limit is that of the program alone. */
  readonly #started: Promise<void>;
  #onStarted = () => {};
  #answer: (reply: Reply) => void = () => {};

  constructor() {
    const isSource = import.meta.url.endsWith(".ts");
    const file = new URL(isSource ? "./sandbox-worker.mjs" : "./code/sandbox-worker.js", import.meta.url);
    // The memory limits are those of the thread's own objects; the engine's memory has its own limit.
    const resourceLimits = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 };
    this.#started = new Promise((resolve) => {
      this.#onStarted = resolve;
    });
    this.#worker = new Worker(file, { execArgv: [], env: {}, resourceLimits, stdout: true, stderr: true });
    this.#worker.on("message", (reply: Reply | "started") => {
      if (reply === "started") this.#onStarted();
      else this.#answer(reply);
    });
    this.#worker.on("error", () => this.#lost());
    this.#worker.on("exit", () => this.#lost());
  }

  async ask(request: object, timeLimitMs: number, clock: Clock): Promise<Reply> {
    this.#worker.ref(); // a program that waits for a grade does not exit
    const answered = new Promise<Reply>((resolve) => {
      this.#answer = resolve;
    });
    await this.#started;
    if (!this.isUsable) return { outcomes: [], ended: "crashed" };
    const cancel = clock.timer(timeLimitMs, () => this.#answer({ outcomes: [], ended: "time" }));
    this.#worker.postMessage(request);
    const reply = await answered;
    cancel();
    this.#answer = () => {};
    this.#worker.unref();
    if (reply.ended === "time" || reply.ended === "crashed") await this.end();
    return reply;
  }

  #lost(): void {
    this.isUsable = false;
    this.#onStarted();
    this.#answer({ outcomes: [], ended: "crashed" });
  }

  async end(): Promise<void> {
    this.isUsable = false;
    await this.#worker.terminate();
  }
}

/** @throws InvalidInputError; otherwise a test's mistake would look like a wrong answer. */
export function checkTest({ call, args, expected }: CodeTest): void {
  if (typeof call !== "string" || !/^[A-Za-z_$][\w$]*$/.test(call))
    throw new InvalidInputError("tests.call", `must be the name of a function, got ${JSON.stringify(call)}`);
  if (!Array.isArray(args) || !isJson(args, 0))
    throw new InvalidInputError("tests.args", "must be a list of JSON values");
  if (!isJson(expected, 0)) throw new InvalidInputError("tests.expected", "must be a JSON value");
}

const deepest = 100;
function isJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth > deepest) return false;
  const isPlain = Array.isArray(value) || [Object.prototype, null].includes(Object.getPrototypeOf(value));
  return isPlain && Object.values(value).every((item) => isJson(item, depth + 1));
}
