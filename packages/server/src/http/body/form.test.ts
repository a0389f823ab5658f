import fc from "fast-check";
import { expect, test } from "vitest";
import { readForm } from "./form.ts";

/** A form as the platform encodes it. */
async function encoded(parts: readonly (readonly [string, Uint8Array])[]) {
  const form = new FormData();
  for (const [name, bytes] of parts) form.set(name, new Blob([bytes as Uint8Array<ArrayBuffer>]), "file.bin");
  const response = new Response(form);
  const contentType = response.headers.get("content-type")!;
  return { contentType, body: new Uint8Array(await response.arrayBuffer()) };
}

test("reads forms of the platform with arbitrary contents", async () => {
  const name = fc.stringMatching(/^[\w ."-]{1,12}$/);
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc.constant(new TextEncoder().encode("\r\n--\r\n----a\r\n")),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.tuple(name, bytes), { selector: ([key]) => key, maxLength: 5 }),
      async (parts) => {
        const { body, contentType } = await encoded(parts);
        const read = await readForm(body, contentType);
        expect([...read!].map(([key, value]) => [key, [...value]])).toEqual(
          parts.map(([key, value]) => [key, [...value]]),
        );
      },
    ),
    { numRuns: 200 },
  );
});

test("finds the end of a part that is longer than a chunk, without copying it", async () => {
  // two of the lengths end near the border of two chunks
  for (const length of [9_000_000, 4 * 1024 * 1024 - 150, 4 * 1024 * 1024 - 100]) {
    const large = new Uint8Array(length).fill(13);
    const { body, contentType } = await encoded([
      ["large", large],
      ["small", Uint8Array.of(1)],
    ]);
    const read = await readForm(body, contentType);
    expect(read!.get("large")!.byteLength).toBe(length);
    expect(read!.get("large")!.buffer).toBe(body.buffer);
    expect([...read!.get("small")!]).toEqual([1]);
  }
});

test("returns undefined without a boundary, an end or headers", async () => {
  const { body, contentType } = await encoded([["a", Uint8Array.of(1, 2, 3)]]);
  expect(await readForm(body, "multipart/form-data")).toBeUndefined();
  expect(await readForm(body, "multipart/form-data; boundary=other")).toBeUndefined();
  for (let length = 0; length < body.length - 6; length++) {
    expect(await readForm(body.slice(0, length), contentType)).toBeUndefined();
  }
  const nameless = new TextEncoder().encode("--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--\r\n");
  expect(await readForm(nameless, 'multipart/form-data; boundary="b"')).toBeUndefined();
  const many = new TextEncoder().encode(
    `${'--b\r\ncontent-disposition: form-data; name="a"\r\n\r\nx\r\n'.repeat(200)}--b--\r\n`,
  );
  expect(await readForm(many, "multipart/form-data; boundary=b")).toBeUndefined();
});
