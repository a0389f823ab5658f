import { FakeClock } from "@tinklet/wire/testing";
import { expect, it } from "vitest";
import type { TinkletEvent } from "../events.ts";
import { MemoryLogger } from "../testing/harness.ts";
import { BillingPause } from "./billing-pause.ts";
import { Reporter } from "./report.ts";

function setup() {
  const clock = new FakeClock();
  const logger = new MemoryLogger();
  const events: TinkletEvent[] = [];
  const reporter = new Reporter({ clock, logger, onEvent: (event) => events.push(event) });
  return { clock, logger, events, pause: new BillingPause(clock, reporter) };
}

it("M-504: counts down from the first 402 of an incident, then gives up", async () => {
  const { clock, events, logger, pause } = setup();
  pause.maxPauseMs = 100_000;
  expect(pause.met("optimStep")).toBe(true);
  await clock.advance(40_000);
  expect(pause.met("asample")).toBe(true);
  expect(events).toEqual([
    { type: "billing.paused", operation: "optimStep", elapsedMs: 0, remainingMs: 100_000 },
    { type: "billing.paused", operation: "asample", elapsedMs: 40_000, remainingMs: 60_000 },
  ]);
  await clock.advance(60_000);
  expect(pause.met("asample")).toBe(false);
  expect(events).toHaveLength(2);
  expect(logger.with("exceeded its maximum")).toHaveLength(1);
});

it("says how much time is left, at most once a minute", async () => {
  const { clock, logger, pause } = setup();
  for (let i = 0; i < 13; i++) {
    pause.met("optimStep");
    await clock.advance(5_000);
  }
  expect(logger.with("402")).toHaveLength(2);
  expect(logger.with("they fail in 60 min")).toHaveLength(1);
});

it("forgets an incident after five quiet minutes", async () => {
  const { clock, events, pause } = setup();
  await clock.advance(1_000_000); // the quiet is counted from the last 402, not from the start
  pause.maxPauseMs = 400_000;
  pause.met("a");
  await clock.advance(300_000);
  pause.met("a");
  expect(events.at(-1)).toMatchObject({ elapsedMs: 300_000 });
  await clock.advance(300_001);
  expect(pause.met("a")).toBe(true);
  expect(events.at(-1)).toMatchObject({ elapsedMs: 0 });
});
