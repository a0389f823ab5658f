/** What an archive may ask of the reader: its sizes, its entries and what it unpacks to are bounded, and the signal ends it. */
import { existsSync } from "node:fs";
import { mkdtemp, open, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { tarStream } from "../../../../server/src/http/runs/tar.ts";
import { unpackTar } from "./download.node.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tinklet-unpack-"));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(folder, { recursive: true, force: true });
});

async function tar(names: readonly string[], size = 5): Promise<Buffer> {
  const content = async function* () {
    yield Buffer.alloc(size, "x");
  };
  const parts: Uint8Array[] = [];
  for await (const part of tarStream(
    names.map((name) => ({ name, size, content })),
    0,
  ))
    parts.push(part);
  return Buffer.concat(parts);
}

/** Changes a field of the first header, whose checksum stays right. */
function withField(archive: Buffer, at: number, value: string): Buffer {
  const header = archive.subarray(0, 512);
  header.write(value, at, "latin1");
  header.fill(" ", 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return archive;
}

async function unpack(archive: Uint8Array, signal?: AbortSignal): Promise<string[]> {
  const [packed, files] = [join(folder, "archive.tar"), join(folder, "files")];
  await writeFile(packed, archive);
  await unpackTar(packed, files, { signal });
  return readdir(files);
}

describe("unpackTar", () => {
  it.each(["-0000001000", "0x000000010", "00000000009", "+0000000005", "0000005 005"])(
    "refuses a size that is not octal digits: %s",
    async (size) => {
      await expect(unpack(withField(await tar(["a"]), 124, size))).rejects.toThrow("The archive is damaged.");
      expect(existsSync(join(folder, "files"))).toBe(false);
    },
  );

  it("takes a size that is filled with blanks", async () => {
    expect(await unpack(withField(await tar(["a"]), 124, "         5 \0"))).toEqual(["a"]);
    expect(await readFile(join(folder, "files", "a"), "utf8")).toBe("xxxxx");
  });

  /** A size as GNU tar writes it from 8 GiB on. */
  const binarySize = (size: bigint) => {
    const field = Buffer.alloc(12);
    field.writeBigUInt64BE(size, 4);
    field[0] = 0x80;
    return field.toString("latin1");
  };
  /** Attributes of the next entry, as POSIX tar writes them. */
  const attributes = async (text: string) => {
    const body = Buffer.from(`${text.length + 3} ${text}`);
    return withField(
      Buffer.concat([(await tar(["pax"], body.length)).subarray(0, 512), body, Buffer.alloc(512 - body.length)]),
      156,
      "x",
    );
  };

  it("takes sizes that need more than octal digits, in both forms", async () => {
    expect(await unpack(withField(await tar(["a", "b"]), 124, binarySize(5n)))).toEqual(["a", "b"]);
    expect(await readFile(join(folder, "files", "a"), "utf8")).toBe("xxxxx");
    await rm(join(folder, "files"), { recursive: true });
    const archive = Buffer.concat([await attributes("size=5\n"), withField(await tar(["a", "b"]), 124, "00000000000")]);
    expect(await unpack(archive)).toEqual(["a", "b"]);
    expect(await readFile(join(folder, "files", "a"), "utf8")).toBe("xxxxx");
    expect(await readFile(join(folder, "files", "b"), "utf8")).toBe("xxxxx"); // the attributes are the first one's
  });

  it.each([9n << 30n, 1n << 53n, (1n << 64n) - 1n])("refuses a size beyond its end: %i", async (size) => {
    await expect(unpack(withField(await tar(["a"]), 124, binarySize(size)))).rejects.toThrow("The archive is damaged.");
    const archive = Buffer.concat([await attributes(`size=${size}\n`), await tar(["a"])]);
    await expect(unpack(archive)).rejects.toThrow("The archive is damaged.");
    expect(existsSync(join(folder, "files"))).toBe(false);
  });

  // Windows would write all of its zeros.
  it.skipIf(process.platform === "win32")("takes a member of more than 8 GiB at its place", async () => {
    const size = 9 * 2 ** 30;
    const [packed, files] = [join(folder, "archive.tar"), join(folder, "files")];
    const first = withField((await tar(["a"])).subarray(0, 512), 124, binarySize(BigInt(size)));
    const last = await tar(["../b"]);
    const file = await open(packed, "w");
    await file.write(first, 0, 512, 0);
    await file.write(last, 0, last.length, 512 + size); // the disk holds no byte of what lies between
    await file.close();
    // Before its content is written the next entry is read: one that leads out ends the unpacking.
    await expect(unpackTar(packed, files)).rejects.toThrow("a path outside its folder");
    expect(existsSync(files)).toBe(false);
  });

  it("refuses more entries than a checkpoint can have, before it writes one", async () => {
    const header = (await tar(["a"], 0)).subarray(0, 512);
    const archive = Buffer.concat([...Array.from({ length: 4001 }, () => header), Buffer.alloc(1024)]);
    await expect(unpack(archive)).rejects.toThrow("more than 4000 entries");
    expect(existsSync(join(folder, "files"))).toBe(false);
  });

  it("reads no name of any length into memory", async () => {
    const archive = withField(await tar(["a", "b"], (1 << 20) + 1), 156, "L");
    await expect(unpack(archive)).rejects.toThrow("The archive is damaged.");
  });

  it("ends with its signal, before it reads the next entry", async () => {
    const cutOff = (await tar(["a"])).subarray(0, 1024);
    await expect(unpack(cutOff, AbortSignal.abort("enough"))).rejects.toBe("enough");
    expect(existsSync(join(folder, "files"))).toBe(false);
  });

  it("ends with its signal while it decompresses", async () => {
    const bytes = 16 << 20;
    await expect(unpack(gzipSync(Buffer.alloc(bytes)), AbortSignal.abort("enough"))).rejects.toBe("enough");
    const unpacked = join(folder, "archive.tar.unpacked");
    expect(existsSync(unpacked) ? (await stat(unpacked)).size : 0).toBeLessThan(bytes);
  });

  it.each([
    ["half of the free space", 6, undefined],
    ["a byte less than the archive needs", 5.999, "disk_full"],
  ])("decompresses into half of the free space at most: %s", async (_, blocks, code) => {
    const archive = await tar(["a", "b"]); // six blocks
    const disk = process.getBuiltinModule("node:fs/promises");
    vi.spyOn(disk, "statfs").mockResolvedValue({ bavail: blocks * 2, blocks: 100, bsize: 512 } as never);
    vi.resetModules();
    const { unpackTar: fresh } = await import("./download.node.ts");
    const [packed, files] = [join(folder, "archive.tar"), join(folder, "files")];
    await writeFile(packed, gzipSync(archive));
    const result: unknown = await fresh(packed, files).catch((error: { code: string }) => error.code);
    expect(result).toBe(code);
    expect(existsSync(files)).toBe(code === undefined);
  });
});
