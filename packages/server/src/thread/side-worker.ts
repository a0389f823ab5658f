/** The side thread itself: answers tasks one after the other, in the order in which they come. */
import { parentPort } from "node:worker_threads";
import type { FromThread, ToThread } from "./side-thread.ts";
import { tasks } from "./tasks.ts";

const port = parentPort!;

/** Memory that is moved back instead of copied: every large array of a result is its own. */
function buffersOf(value: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> {
  if (ArrayBuffer.isView(value)) {
    if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength) found.add(value.buffer);
  } else if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) buffersOf(inner, found);
  }
  return found;
}

let line: Promise<void> = Promise.resolve();
port.on("message", ({ id, task, input }: ToThread) => {
  line = line.then(async () => {
    try {
      const value: unknown = await (tasks[task] as (given: unknown) => unknown)(input);
      port.postMessage({ id, value } satisfies FromThread, [...buffersOf(value)]);
    } catch (error) {
      const { name, message } = error instanceof Error ? error : { name: "Error", message: String(error) };
      port.postMessage({ id, error: { name, message } } satisfies FromThread);
    }
  });
});
