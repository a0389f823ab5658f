/** Nested messages byte by byte, and the number of copies of large fields. */
import { expect, it } from "vitest";
import { ProtobufWriter } from "./protobuf.ts";

it("writes nested messages with length prefixes", () => {
  const bytes = new ProtobufWriter()
    .varint(1, 300)
    .message(2, (outer) => outer.string(1, "ab").message(3, (inner) => inner.varint(1, 7)))
    .finish();
  expect([...bytes]).toEqual([0x08, 0xac, 0x02, 0x12, 8, 0x0a, 2, 0x61, 0x62, 0x1a, 2, 0x08, 7]);
});

it("copies the bytes of a large field only in the outermost finish, at any nesting depth", () => {
  const weights = new Uint8Array(100_000);
  const writer = new ProtobufWriter().message(7, (graph) => graph.message(5, (tensor) => tensor.bytes(9, weights)));
  weights[0] = 42; // visible in the result only if no copy was made before
  expect(writer.finish().at(-weights.length)).toBe(42);
});
