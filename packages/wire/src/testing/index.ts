/** `@tinklet/wire/testing`: the clock for tests. */
export { FakeClock } from "./fake-clock.ts";
