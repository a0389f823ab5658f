/**
 * A worker thread for work whose size the client chooses. It starts with the first task and ends after a time without tasks. If it dies, it
 * is restarted and the running task is retried once; a second death rejects that task. A task that exceeds its time limit ends with its
 * thread, and the tasks after it run on a new one. Tasks run one at a time; a caller with many tasks submits them one by one, so that
 * tasks of other callers run in between.
 */
import type { Worker } from "node:worker_threads";
import { startThread } from "@tinklet/engine";
import type { Clock } from "@tinklet/wire/clock";
import type { TaskName, Tasks } from "./tasks.ts";

export interface ToThread {
  readonly id: number;
  readonly task: TaskName;
  readonly input: unknown;
}

export type FromThread = { readonly id: number } & (
  | { readonly value: unknown }
  | { readonly error: { readonly name: string; readonly message: string } }
);

/** An error that a task threw; `task` is the name of its class in the thread. */
export class TaskError extends Error {
  override readonly name = "TaskError";
  readonly task: string;
  constructor(task: string, message: string) {
    super(message);
    this.task = task;
  }
}

/** The thread died twice while it ran the task. */
export class ThreadDied extends Error {
  override readonly name = "ThreadDied";
}

/** The task exceeded its time limit. */
export class ThreadTimeout extends Error {
  override readonly name = "ThreadTimeout";
}

/** The server is shutting down. */
export class ThreadClosed extends Error {
  override readonly name = "ThreadClosed";
  constructor() {
    super("The server is shutting down.");
  }
}

export interface SideThread {
  /**
   * Runs a task and resolves with its result.
   *
   * @param options.limitMs - time limit of the task itself, without its time in the queue. @defaultValue no limit
   * @throws {@link TaskError} for an error that the task threw; {@link ThreadDied} when the thread died twice while it ran the task;
   *   {@link ThreadTimeout}; {@link ThreadClosed}
   */
  run<K extends TaskName>(
    task: K,
    input: Parameters<Tasks[K]>[0],
    options?: { readonly limitMs?: number },
  ): Promise<Awaited<ReturnType<Tasks[K]>>>;
  /** Ends the thread and rejects its tasks. Idempotent. */
  close(): Promise<void>;
}

export interface SideThreadOptions {
  readonly clock: Clock;
  /** @defaultValue the thread of this package */
  readonly start?: () => Promise<Worker>;
}

interface Pending {
  readonly message: ToThread;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
  readonly limitMs: number | undefined;
  deaths: number;
}

/** Time without a task after which the thread is ended, to free its compiled code and the memory of its last task. */
const idleMs = 60_000;
const mostDeaths = 1;

/** The heap limit does not include typed arrays, which hold most of the data of tasks. */
export const startSideThread = (): Promise<Worker> =>
  startThread(import.meta.url, "side-worker", { resourceLimits: { maxOldGenerationSizeMb: 512 } });

export function createSideThread({ clock, start = startSideThread }: SideThreadOptions): SideThread {
  const pending = new Map<number, Pending>();
  let worker: Promise<Worker> | undefined;
  /** The thread, once the pending tasks were sent to it. */
  let ready: Worker | undefined;
  let nextId = 1;
  let closed = false;
  let stopIdling: (() => void) | undefined;
  /** The task whose time limit is running. */
  let timed: Pending | undefined;
  let stopTimer = () => {};

  /** Starts the time limit of the task that the thread is running: the first of `pending`. */
  const time = () => {
    const [first] = ready === undefined ? [] : pending.values();
    if (first === timed) return;
    stopTimer();
    timed = first;
    if (first?.limitMs === undefined) return;
    stopTimer = clock.timer(first.limitMs, () => expire(first));
  };
  const expire = (task: Pending) => {
    pending.delete(task.message.id);
    const stuck = ready;
    worker = undefined;
    ready = undefined;
    time();
    void stuck?.terminate();
    task.reject(new ThreadTimeout(`${task.message.task} did not end within ${task.limitMs} ms`));
    if (pending.size > 0 && !closed) worker = opened();
  };

  /** Starts a thread and sends it the pending tasks in their order. */
  const open = async (): Promise<Worker> => {
    const started = await start();
    started.on("message", (message: FromThread) => {
      const waiting = pending.get(message.id);
      if (waiting === undefined) return;
      pending.delete(message.id);
      if ("error" in message) waiting.reject(new TaskError(message.error.name, message.error.message));
      else waiting.resolve(message.value as never);
      time();
      if (pending.size === 0) rest(started);
    });
    started.on("error", (error) => died(error.message));
    started.on("exit", () => died("it ended"));
    // A thread that was ended on purpose, or has already died, is no longer `ready`.
    const died = (reason: string) => {
      if (ready !== started) return;
      worker = undefined;
      ready = undefined;
      time();
      // tasks run in order, so the first pending one was running
      const [first] = pending.values();
      if (first !== undefined && ++first.deaths > mostDeaths) {
        pending.delete(first.message.id);
        first.reject(new ThreadDied(`The thread that ran this died: ${reason}.`));
      }
      if (pending.size > 0 && !closed) worker = opened();
    };
    for (const { message } of pending.values()) started.postMessage(message);
    ready = started;
    time();
    return started;
  };
  const opened = (): Promise<Worker> => {
    const opening = open();
    opening.catch((error: unknown) => {
      worker = undefined;
      refuse(error);
    });
    return opening;
  };
  const refuse = (error: unknown) => {
    for (const { reject } of pending.values()) reject(error);
    pending.clear();
  };

  /** An idle thread does not keep the process alive, and is ended after `idleMs`. */
  const rest = (idle: Worker) => {
    idle.unref();
    stopIdling = clock.timer(idleMs, () => {
      worker = undefined;
      ready = undefined;
      void idle.terminate();
    });
  };

  return {
    run: (task, input, { limitMs } = {}) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(new ThreadClosed());
        stopIdling?.();
        stopIdling = undefined;
        const message: ToThread = { id: nextId++, task, input };
        pending.set(message.id, { message, resolve, reject, limitMs, deaths: 0 });
        // a thread that is starting receives all pending tasks once it is ready
        if (ready === undefined) worker ??= opened();
        else {
          ready.ref();
          ready.postMessage(message);
          time();
        }
      }),
    close: async () => {
      closed = true;
      stopIdling?.();
      const last = worker;
      worker = undefined;
      ready = undefined;
      time();
      refuse(new ThreadClosed());
      await (await last?.catch(() => undefined))?.terminate();
    },
  };
}
