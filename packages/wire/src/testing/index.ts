/** `@tinklet/wire/testing`: what tests need of the leaves. */
export { FakeClock } from "./fake-clock.ts";
