/**
 * `tinklet`: the public SDK. This file alone decides what is public.
 */
export { type Clock, FakeClock, systemClock } from "./clock.ts";
export * from "./errors.ts";
export type { EventListener, Logger, LogLevel, TinkletEvent } from "./events.ts";
export * from "./wire/index.ts";
