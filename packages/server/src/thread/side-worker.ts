/** Entry point of the side thread: runs tasks one at a time, in the order of their messages. */
import { parentPort } from "node:worker_threads";
import type { FromThread, ToThread } from "./side-thread.ts";
import { tasks } from "./tasks.ts";

const port = parentPort!;

/** Buffers of a result to transfer instead of copying: typed arrays that own their whole buffer. */
function buffersOf(value: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> {
  if (ArrayBuffer.isView(value)) {
    if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength) found.add(value.buffer);
  } else if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) buffersOf(inner, found);
  }
  return found;
}

let lastTask: Promise<void> = Promise.resolve();
port.on("message", ({ id, task, input }: ToThread) => {
  lastTask = lastTask.then(async () => {
    try {
      const value: unknown = await (tasks[task] as (input: unknown) => unknown)(input);
      port.postMessage({ id, value } satisfies FromThread, [...buffersOf(value)]);
    } catch (error) {
      const { name, message } = error instanceof Error ? error : { name: "Error", message: String(error) };
      port.postMessage({ id, error: { name, message } } satisfies FromThread);
    }
  });
});
