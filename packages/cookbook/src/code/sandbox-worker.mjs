/**
 * The thread of a sandbox: runs one program at a time in a QuickJS compiled to WebAssembly and compares what its functions return with
 * what tests expect. Each program gets an engine of its own, which imports no function of the host but a stopped clock: it has no file,
 * no network, no timer and no randomness. Expected values stay outside of the engine. Plain JavaScript, so that a source checkout can
 * start it as a thread; `sandbox.ts` has the types and ends a program that the limits here cannot end.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { parentPort } from "node:worker_threads";
import { JSException, QuickJS } from "quickjs-wasi";

const engine = new WebAssembly.Module(
  readFileSync(createRequire(import.meta.url).resolve("quickjs-wasi/quickjs.wasm")),
);

/** The clock that programs read: always the same, so that a grade depends on the program alone. In nanoseconds. */
const stoppedAt = BigInt(Date.UTC(2026, 0, 1)) * 1_000_000n;
const badFile = 8; // WASI's EBADF
const stoppedClock = (memory) => ({
  clock_time_get(_clock, _precision, at) {
    new DataView(memory.buffer).setBigUint64(at, stoppedAt, true);
    return 0;
  },
  random_get(at, length) {
    new Uint8Array(memory.buffer, at, length).fill(7);
    return 0;
  },
  fd_write: () => badFile,
});

/** `console` exists, because answers often print; what they print is dropped. */
const quietConsole =
  "globalThis.console = Object.fromEntries(['log','info','warn','error','debug','trace','table'].map((name) => [name, () => {}]));";

/** Longest error message that is reported, in characters. */
const messageLength = 200;

class LimitReached extends Error {}

async function grade({ source, tests, maxTicks, memoryBytes }) {
  let ticks = 0;
  const vm = await QuickJS.create({
    wasm: engine,
    wasi: stoppedClock,
    memoryLimit: memoryBytes,
    maxStackSize: 256 * 1024, // of the engine's 1 MiB
    timezoneOffset: 0,
    interruptHandler: () => ++ticks > maxTicks, // called about every 10,000 calls and jumps
  });
  const outcomes = [];
  const attempt = async (run) => {
    try {
      return await run();
    } catch (error) {
      if (ticks > maxTicks) throw new LimitReached("ticks");
      // Anything but an exception of the program (a trap of the engine, an overflow of the stack here) leaves the engine unusable.
      if (!(error instanceof JSException)) throw new LimitReached("crashed");
      return { outcome: "threw", message: `${error.name}: ${error.message}`.slice(0, messageLength) };
    }
  };
  try {
    const parse = vm.evalCode("JSON.parse"); // before the program can replace it
    vm.evalCode(quietConsole);
    const failed = await attempt(() => void vm.evalCode(source, "answer.js"));
    for (const { call, args, expected } of tests) {
      const run = async () => {
        const called = vm.evalCode(call);
        const list = vm.callFunction(parse, vm.undefined, vm.newString(JSON.stringify(args)));
        const values = args.map((_, index) => ownValue(list, String(index)));
        const { value, message } = await settled(vm, vm.callFunction(called, vm.undefined, ...values));
        if (message !== undefined) return { outcome: "threw", message };
        return { outcome: isEqual(value, expected) ? "passed" : "wrong" };
      };
      outcomes.push(failed ?? (await attempt(run)));
    }
    return { outcomes };
  } catch (error) {
    return { outcomes, ended: error instanceof LimitReached ? error.message : "crashed" };
  }
  // The engine is left to the garbage collector: freeing the objects of a hostile program would run more of its code.
}

/** What a promise settles to, once the waiting jobs have run; other values are themselves. */
async function settled(vm, value) {
  if (!value.isPromise) return { value };
  vm.executePendingJobs(); // throws when the ticks are used up
  if (value.promiseState === 0) return { message: "the promise never settles" };
  const result = await vm.resolvePromise(value);
  return "error" in result ? { message: "the promise was rejected" } : result;
}

/** A property of the program's value, unless it is absent or has a getter. */
const ownValue = (object, key) => object.getOwnPropertyDescriptor(key)?.value;

/** Whether a number is the expected one, but for the rounding of another order of operations. */
const isNear = (a, b) =>
  // An infinite number is near to none: its own rounding error would be infinite.
  a === b || (Number.isFinite(a) && Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b)));

/**
 * Whether the program's value is the expected one, as data: functions, proxies and getters are not. The walk follows the expected value,
 * whose size the tests set, because the program's value may be of any size.
 */
function isEqual(value, expected) {
  if (value === undefined) return false;
  if (expected === null) return value.isNull;
  if (typeof expected === "number") return value.isNumber && isNear(value.toNumber(), expected);
  if (typeof expected === "boolean") return value.isBool && value.toBoolean() === expected;
  if (typeof expected === "string")
    return value.isString && value.length === expected.length && value.toString() === expected;
  if (!value.isObject || value.isProxy || value.isFunction) return false;
  const keys = Object.keys(expected);
  if (Array.isArray(expected) !== value.isArray) return false;
  if (value.isArray && ownValue(value, "length")?.toNumber() !== keys.length) return false;
  if (!value.isArray && value.getOwnPropertyKeys().length !== keys.length) return false;
  return keys.every((key) => isEqual(ownValue(value, key), expected[key]));
}

parentPort.on("message", (request) => {
  grade(request).then(
    (graded) => parentPort.postMessage(graded),
    () => parentPort.postMessage({ outcomes: [], ended: "crashed" }),
  );
});
parentPort.postMessage("started");
