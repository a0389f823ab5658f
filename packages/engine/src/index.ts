/** The engine's public exports. */
export { arithmeticVersion } from "./arithmetic.ts";
export { defaultMemoryBudget } from "./default-memory-budget.ts";
export { type FoundDevice, findDevices } from "./device/find-devices.ts";
export { openEngine } from "./engine.ts";
export * from "./errors.ts";
export { type FoundRuntime, findRuntime } from "./runtime/find-runtime.ts";
export { overflowSlots } from "./sample/overflow-slots.ts";
export type * from "./types.ts";
export { startThread } from "./worker/start-thread.ts";
export { yieldToEventLoop } from "./worker/yield-to-event-loop.ts";
