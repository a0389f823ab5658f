import { describe, expect, it } from "vitest";
import { InvalidInputError } from "./errors.ts";
import { compressZstd, decompressZstd } from "./zstd.ts";

// `zstd -c --no-content-size` of "tinklet" repeated 8 times, and with the size in its header
const text = new TextEncoder().encode("tinklet".repeat(8));

describe("zstd", () => {
  it("round trip, and the frame is zstd", async () => {
    const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => (i * i) % 251);
    const packed = await compressZstd(bytes);
    expect([...packed.subarray(0, 4)]).toEqual([0x28, 0xb5, 0x2f, 0xfd]);
    expect(packed.length).toBeLessThan(bytes.length / 4);
    expect(await decompressZstd(packed, { maxBytes: 100_000 })).toEqual(bytes);
    expect(await decompressZstd(await compressZstd(text), { maxBytes: 56 })).toEqual(text);
    expect(await decompressZstd(await compressZstd(new Uint8Array(0)), { maxBytes: 10 })).toEqual(new Uint8Array(0));
  });

  it("refuses a body that would unpack to more than allowed", async () => {
    const bomb = await compressZstd(new Uint8Array(10_000_000));
    expect(bomb.length).toBeLessThan(2000);
    await expect(decompressZstd(bomb, { maxBytes: 9_999_999 })).rejects.toThrow(/more than the limit of 9999999 bytes/);
    await expect(decompressZstd(bomb, { maxBytes: 10_000_000 })).resolves.toHaveLength(10_000_000);
  });

  it("a frame that does not tell its size is unpacked within the limit", async () => {
    // a raw block of 3 bytes in a frame without content size: magic, descriptor 0, window byte, block header, content
    const frame = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x19, 0x00, 0x00, 1, 2, 3);
    expect(await decompressZstd(frame, { maxBytes: 100 })).toEqual(Uint8Array.of(1, 2, 3));
    await expect(decompressZstd(frame, { maxBytes: 2 })).rejects.toThrow(InvalidInputError);
  });

  it("refuses what is not zstd or is damaged", async () => {
    const packed = await compressZstd(Uint8Array.from({ length: 5000 }, (_, i) => (i * 7919) % 256));
    await expect(decompressZstd(Uint8Array.of(1, 2, 3, 4, 5, 6, 7), { maxBytes: 100 })).rejects.toThrow(/not zstd/);
    await expect(decompressZstd(new Uint8Array(0), { maxBytes: 100 })).rejects.toThrow(/not zstd/);
    await expect(decompressZstd(packed.subarray(0, 5), { maxBytes: 10_000 })).rejects.toThrow(/not zstd/);
    await expect(decompressZstd(packed.subarray(0, packed.length - 9), { maxBytes: 10_000 })).rejects.toThrow(/intact/);
  });
});
