/** In place of the server's side threads: a task runs in this process, as an event. */
import { EventEmitter } from "node:events";
import { type TaskName, tasks } from "../../../packages/server/src/thread/tasks.ts";
import type { Owner, Scheduler } from "./scheduler.ts";

let host: { readonly scheduler: Scheduler; readonly owner: Owner } | undefined;

/** Where threads that are started from now on run. */
export function hostThreads(of: typeof host): void {
  host = of;
}

class InlineThread extends EventEmitter {
  readonly #host = host!;
  #ended = false;

  postMessage({ id, task, input }: { id: number; task: TaskName; input: unknown }): void {
    const { scheduler, owner } = this.#host;
    const say = (message: object) => {
      if (!this.#ended) this.emit("message", { id, ...message });
    };
    scheduler.after(owner, 1, `task ${task}`, () => {
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
