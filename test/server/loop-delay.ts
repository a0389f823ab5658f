/** How long a process's event loop was held up: what a poll or a heartbeat would have had to wait. */
import { monitorEventLoopDelay } from "node:perf_hooks";

/** Starts watching; the function returned tells the longest and the 99th percentile so far, in milliseconds. */
export function watchLoop(): () => { readonly maxMs: number; readonly p99Ms: number } {
  const resolution = 5;
  const watch = monitorEventLoopDelay({ resolution });
  watch.enable();
  // the histogram holds the time between two looks; what exceeds their distance is delay
  const delay = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - resolution);
  return () => ({ maxMs: delay(watch.max), p99Ms: delay(watch.percentile(99)) });
}
