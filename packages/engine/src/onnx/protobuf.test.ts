/** Messages within messages, byte by byte, and how often large fields are copied. */
import { expect, it } from "vitest";
import { ProtobufWriter } from "./protobuf.ts";

it("writes nested messages with their lengths in front", () => {
  const bytes = new ProtobufWriter()
    .varint(1, 300)
    .message(2, (outer) => outer.string(1, "ab").message(3, (inner) => inner.varint(1, 7)))
    .finish();
  expect([...bytes]).toEqual([0x08, 0xac, 0x02, 0x12, 8, 0x0a, 2, 0x61, 0x62, 0x1a, 2, 0x08, 7]);
});

it("does not copy the bytes of a large field before the end, however deep it lies", () => {
  const weights = new Uint8Array(100_000);
  const writer = new ProtobufWriter().message(7, (graph) => graph.message(5, (tensor) => tensor.bytes(9, weights)));
  weights[0] = 42; // seen only by whoever has not made a copy yet
  expect(writer.finish().at(-weights.length)).toBe(42);
});
