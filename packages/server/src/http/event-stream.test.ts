import { FakeClock } from "@tinklet/wire/testing";
import { expect, test } from "vitest";
import { createEventStream } from "./event-stream.ts";

test("unread events are buffered and read in chunks, and the stream is over when the last byte is read", async () => {
  let over = 0;
  const stream = createEventStream({
    clock: new FakeClock(),
    heartbeatMs: 1000,
    heartbeat: () => ": \n\n",
    onGone: () => {},
    onOver: () => over++,
  });
  const events = Array.from({ length: 200 }, (_, i) => `data: ${i} ${"é".repeat(1000)}\n\n`);
  for (const event of events) stream.send(event);
  stream.end();
  const reader = stream.response().body!.getReader();
  const texts: string[] = [];
  const decoder = new TextDecoder();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    expect(value.byteLength).toBeLessThan(50_000);
    texts.push(decoder.decode(value, { stream: true }));
    if (texts.length < 10) expect(over).toBe(0);
  }
  expect(texts.join("")).toBe(events.join(""));
  expect(over).toBe(1);
});
