/** In place of the server's side threads: a task runs in this process, as an event. */
import { EventEmitter } from "node:events";
import { type TaskName, tasks } from "../../../packages/server/src/thread/tasks.ts";
import type { Random } from "./random.ts";
import type { Owner, Scheduler } from "./scheduler.ts";

interface ThreadHost {
  readonly scheduler: Scheduler;
  readonly owner: Owner;
  readonly random: Random;
  /** Share of the tasks that end their thread for lack of memory. */
  readonly deathRate: () => number;
}

let host: ThreadHost | undefined;

/** Where threads that are started from now on run. */
export function hostThreads(of: typeof host): void {
  host = of;
}

class InlineThread extends EventEmitter {
  readonly #host = host!;
  #ended = false;

  postMessage({ id, task, input }: { id: number; task: TaskName; input: unknown }): void {
    const { scheduler, owner, random, deathRate } = this.#host;
    const say = (message: object) => {
      if (!this.#ended) this.emit("message", { id, ...message });
    };
    scheduler.after(owner, 1, `task ${task}`, () => {
      if (this.#ended) return;
      const rate = deathRate();
      if (rate > 0 && random.chance(rate)) {
        scheduler.note(`${owner.name} thread dies`);
        this.#ended = true;
        this.emit("error", new Error("out of memory"));
        this.emit("exit", 1);
        return;
      }
      void (async () => {
        try {
          say({ value: await (tasks[task] as (given: unknown) => unknown)(structuredClone(input)) });
        } catch (error) {
          const { name, message } = error as Error;
          say({ error: { name, message } });
        }
      })();
    });
  }

  async terminate(): Promise<void> {
    this.#ended = true;
  }
  ref(): void {}
  unref(): void {}
}

export const startThread = async (): Promise<InlineThread> => new InlineThread();
