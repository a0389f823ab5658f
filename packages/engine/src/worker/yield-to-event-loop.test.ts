import { expect, test } from "vitest";
import { yieldToEventLoop } from "./yield-to-event-loop.ts";

test("works in pieces that wait together each get a turn of the event loop", async () => {
  let turn = 0;
  let over = false;
  const count = () => {
    turn++;
    if (!over) setImmediate(count);
  };
  setImmediate(count);
  const turns: number[] = [];
  const work = async () => {
    for (let piece = 0; piece < 3; piece++) {
      await yieldToEventLoop();
      turns.push(turn);
    }
  };
  await Promise.all([work(), work(), work()]);
  over = true;
  expect(new Set(turns).size).toBe(9);
});
