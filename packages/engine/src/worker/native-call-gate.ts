/**
 * Lets a process end while the engine's thread computes. `process.exit()` stops threads wherever they are, and native code that comes
 * back to a thread that is no more aborts the process (status 134 instead of the caller's). So the thread says when it is in native
 * code, in memory that both sides see, and the caller's waits at its end until it is out and lets it in no more.
 */
import type { Program, Runtime } from "../runtime/runtime.ts";

/** Places in the shared memory: native calls under way, and whether the process is ending. */
const place = { calls: 0, ending: 1 } as const;
/** The longest that an ending process waits. One call is one run: seconds at most, but for models that are slow altogether. */
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

/** On the caller's thread: the end of the process waits for this thread from now on. Returns a function that takes that back. */
export function watchGate(gate: GateMemory): () => void {
  if (open.size === 0) process.on("exit", waitForAll);
  open.add(gate);
  return () => {
    open.delete(gate);
    if (open.size === 0) process.off("exit", waitForAll);
  };
}

/** A native call begins. While the process ends it does not: the thread waits here until it is stopped. */
function enter(gate: GateMemory): void {
  Atomics.add(gate, place.calls, 1); // before the look: either this thread sees the end, or the other one sees the call
  if (Atomics.load(gate, place.ending) === 0) return;
  leave(gate);
  Atomics.wait(gate, place.ending, 1);
}

function leave(gate: GateMemory): void {
  Atomics.sub(gate, place.calls, 1);
  Atomics.notify(gate, place.calls);
}

/** On the engine's thread: work that is native code. */
export async function throughGate<T>(gate: GateMemory, work: () => Promise<T>): Promise<T> {
  enter(gate);
  try {
    return await work();
  } finally {
    leave(gate);
  }
}

/** As `throughGate`, for a native call that returns at once. */
export function throughGateSync<T>(gate: GateMemory, work: () => T): T {
  enter(gate);
  try {
    return work();
  } finally {
    leave(gate);
  }
}

/** A runtime whose every call goes through the gate. */
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
