import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { tarStream } from "./tar.ts";

/** The header of a member of this size; its content is not read. */
async function headerOf(size: number): Promise<Uint8Array> {
  const content = async function* () {};
  const { value } = await tarStream([{ name: "weights", size, content }], 0).next();
  return value as Uint8Array;
}
const field = (header: Uint8Array) => Buffer.from(header.subarray(124, 136));

test.each([0, 1, 8 ** 11 - 1])("a size of %d is octal", async (size) => {
  expect(field(await headerOf(size)).toString("latin1")).toBe(`${size.toString(8).padStart(11, "0")}\0`);
});

test.each([8 ** 11, 8 ** 11 + 513, 2 ** 40 + 1])("a size of %d is binary, and its checksum holds", async (size) => {
  const header = await headerOf(size);
  expect(field(header)[0]).toBe(0x80);
  expect(field(header).readBigUInt64BE(4)).toBe(BigInt(size));
  expect([...field(header).subarray(1, 4)]).toEqual([0, 0, 0]);
  const blank = Uint8Array.from(header).fill(32, 148, 156);
  const sum = Number.parseInt(Buffer.from(header.subarray(148, 154)).toString("latin1"), 8);
  expect(sum).toBe(blank.reduce((total, byte) => total + byte, 0));
});

test.skipIf(spawnSync("tar", ["--version"]).status !== 0)("tar reads the size of a large member", async () => {
  const size = 8 ** 11 + 513;
  // listing an archive does not read the content of its last member
  const listed = spawnSync("tar", ["--list", "--verbose", "--file", "-"], { input: await headerOf(size) });
  expect(listed.stdout.toString()).toContain(` ${size} `);
});
