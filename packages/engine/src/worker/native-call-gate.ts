/**
 * Blocks native calls while the process exits. `process.exit()` stops threads at any point, and native code that returns to a stopped
 * thread aborts the process (status 134 instead of the caller's status). The engine's thread therefore counts its native calls in shared
 * memory; an exit handler on the caller's thread waits until the count is 0 and blocks further calls.
 */
import type { Program, Runtime } from "../runtime/runtime.ts";

/** Indices in the shared memory: running native calls, and whether the process is exiting. */
const place = { calls: 0, ending: 1 } as const;
/** Maximum wait at exit. One call is one run: seconds at most, except for very slow models. */
const patienceMs = 60_000;

export type GateMemory = Int32Array<SharedArrayBuffer>;

export const createGate = (): GateMemory => new Int32Array(new SharedArrayBuffer(8));

const open = new Set<GateMemory>();

function waitForAll(): void {
  const until = performance.now() + patienceMs;
  for (const gate of open) Atomics.store(gate, place.ending, 1);
  for (const gate of open) {
    for (let calls = Atomics.load(gate, place.calls); calls > 0; calls = Atomics.load(gate, place.calls)) {
      const left = until - performance.now();
      if (left <= 0) return;
      Atomics.wait(gate, place.calls, calls, left);
    }
  }
}

/** On the caller's thread: makes process exit wait for native calls. Returns a function that undoes this. */
export function watchGate(gate: GateMemory): () => void {
  if (open.size === 0) process.on("exit", waitForAll);
  open.add(gate);
  return () => {
    open.delete(gate);
    if (open.size === 0) process.off("exit", waitForAll);
  };
}

/** Marks the start of a native call. If the process is exiting, blocks until the thread is stopped. */
function enter(gate: GateMemory): void {
  Atomics.add(gate, place.calls, 1); // before the check: either this thread sees the exit, or the exit handler sees the call
  if (Atomics.load(gate, place.ending) === 0) return;
  leave(gate);
  Atomics.wait(gate, place.ending, 1);
}

function leave(gate: GateMemory): void {
  Atomics.sub(gate, place.calls, 1);
  Atomics.notify(gate, place.calls);
}

/** On the engine's thread: runs native work through the gate. */
export async function throughGate<T>(gate: GateMemory, work: () => Promise<T>): Promise<T> {
  enter(gate);
  try {
    return await work();
  } finally {
    leave(gate);
  }
}

/** Like `throughGate`, for a synchronous native call. */
export function throughGateSync<T>(gate: GateMemory, work: () => T): T {
  enter(gate);
  try {
    return work();
  } finally {
    leave(gate);
  }
}

/** A runtime whose every call passes the gate. */
export const gatedRuntime = (runtime: Runtime, gate: GateMemory): Runtime => ({
  ...runtime,
  compile: async (...args) => {
    const program: Program = await throughGate(gate, () => runtime.compile(...args));
    return {
      run: (inputs) => throughGate(gate, () => program.run(inputs)),
      dispose: () => throughGate(gate, () => program.dispose()),
    };
  },
});
