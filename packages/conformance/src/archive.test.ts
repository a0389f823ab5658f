import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { readTar } from "./archive.ts";

/** A tar header with the given text in the size field. */
function header(name: string, size: string): Uint8Array {
  const bytes = new Uint8Array(512);
  const put = (text: string, at: number) => bytes.set(new TextEncoder().encode(text), at);
  put(name, 0);
  put(size, 124);
  put("0", 156);
  put("ustar", 257);
  return bytes;
}
const archive = (...blocks: Uint8Array[]) => new Uint8Array(Buffer.concat([...blocks, new Uint8Array(1024)]));
const expected = (text: string) => expect.objectContaining({ expected: expect.stringContaining(text) });
const content = new Uint8Array(512).fill(7);

test("reads files by name, compressed or not", () => {
  const plain = archive(header("a/b.json", "00000001000"), content);
  for (const bytes of [plain, new Uint8Array(gzipSync(plain))]) {
    expect([...readTar(bytes)].map(([name, { length }]) => [name, length])).toEqual([["b.json", 512]]);
  }
});

test.each(["-0000001000", "-1", "00000abc", "0x10", "1e3"])("rejects the file size %j", (size) => {
  expect(() => readTar(archive(header("a", size), content))).toThrow(expected("octal digits"));
});

test("rejects a file that is longer than the archive", () => {
  expect(() => readTar(archive(header("a", "00000100000"), content))).toThrow(
    expected("at most the size of the archive"),
  );
});

test("rejects gzip data that decompress to more than the limit", () => {
  const bomb = new Uint8Array(gzipSync(new Uint8Array(10_000_000)));
  expect(() => readTar(bomb, 1_000_000)).toThrow(expected("at most 1000000 bytes"));
});
