/**
 * A thread beside the event loop for work that a client sizes. Started when it is first needed, ended when it has been idle, and started
 * again should it die: the task under which it died is tried once more, and refused when it happens again. A task that takes longer than it
 * may ends with its thread, and those behind it run on the next. Tasks run one after the other; a caller with many gives them one by one,
 * so that others come in between.
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

/** What a task said was wrong; `task` is the error's name there. */
export class TaskError extends Error {
  override readonly name = "TaskError";
  readonly task: string;
  constructor(task: string, message: string) {
    super(message);
    this.task = task;
  }
}

/** The thread died under a task, twice. */
export class ThreadDied extends Error {
  override readonly name = "ThreadDied";
}

/** The task took longer than it may. */
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
   * @param options.limitMs - how long it may run, waiting not counted. @defaultValue no limit
   * @throws {@link TaskError} what the task threw; {@link ThreadDied} when the thread did not survive it; {@link ThreadTimeout};
   *   {@link ThreadClosed}
   */
  run<K extends TaskName>(
    task: K,
    input: Parameters<Tasks[K]>[0],
    options?: { readonly limitMs?: number },
  ): Promise<Awaited<ReturnType<Tasks[K]>>>;
  /** Ends the thread; tasks that it has are refused. Idempotent. */
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

/** Silence after which the thread is ended: what it holds (compiled code, memory of the last task) is given back. */
const idleMs = 60_000;
const mostDeaths = 1;

/** Tasks make typed arrays, which do not count here: what does is their bookkeeping. */
export const startSideThread = (): Promise<Worker> =>
  startThread(import.meta.url, "side-worker", { resourceLimits: { maxOldGenerationSizeMb: 512 } });

export function createSideThread({ clock, start = startSideThread }: SideThreadOptions): SideThread {
  const pending = new Map<number, Pending>();
  let worker: Promise<Worker> | undefined;
  /** The thread, once it has been sent what was pending. */
  let ready: Worker | undefined;
  let nextId = 1;
  let closed = false;
  let stopIdling: (() => void) | undefined;
  /** The task whose time is running. */
  let timed: Pending | undefined;
  let stopTimer = () => {};

  /** Times the task that the thread is working on: the first in line. */
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

  /** Sends what is pending to a thread that was just started, in its order. */
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
    // One that was ended on purpose, or has died already, is no longer the one that is ready.
    const died = (reason: string) => {
      if (ready !== started) return;
      worker = undefined;
      ready = undefined;
      time();
      // The first in line was the one it was working on.
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

  /** An idle thread keeps no program alive, and goes when nothing comes. */
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
        // One that is being started is sent all that is pending when it is there.
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
