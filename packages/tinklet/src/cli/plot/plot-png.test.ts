// The picture is read back: its letters and where they stand.
import { inflateSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { textColumns, textPixels } from "./bitmap-font.ts";
import { pngPlot } from "./plot-png.ts";
import { plotBox } from "./plot-svg.ts";

/** Whether a pixel is not white. */
function decode(png: Uint8Array): { width: number; height: number; ink: (x: number, y: number) => boolean } {
  const file = Buffer.from(png);
  const [width, height] = [file.readUInt32BE(16), file.readUInt32BE(20)];
  const at = file.indexOf("IDAT");
  const rows = inflateSync(file.subarray(at + 4, at + 4 + file.readUInt32BE(at - 4)));
  const stride = width * 3 + 1;
  return { width, height, ink: (x, y) => rows.readUIntBE(y * stride + 1 + x * 3, 3) !== 0xffffff };
}
const points = (scale: number): [number, number][] => Array.from({ length: 30 }, (_, at) => [at, scale / (at + 1)]);
const drawn = (text: string) => [...textPixels(text)].join(" ");

describe("letters", () => {
  it("every printable character has one of its own", () => {
    const all = Array.from({ length: 94 }, (_, at) => String.fromCharCode(33 + at));
    expect(new Set(all.map(drawn)).size).toBe(all.length);
    expect(all.filter((letter) => drawn(letter) === drawn("\u4e00"))).toEqual([]);
  });

  it("small letters are not capitals, and some reach below the line", () => {
    expect(drawn("a")).not.toBe(drawn("A"));
    expect([...textPixels("g")].some(([, row]) => row > 6)).toBe(true);
    expect([...textPixels("Test")].every(([column]) => column < textColumns("Test"))).toBe(true);
  });
});

describe("the picture", () => {
  it.each([3, 0.00123, 123456])("the label of the axis does not touch its numbers, at values of %d", (scale) => {
    const { height, ink } = decode(
      pngPlot([{ name: "loss", points: points(scale) }], { title: "t", yLabel: "train_mean_nll, test/nll" }),
    );
    const left = plotBox.left * 2 - 4;
    const columns = Array.from({ length: left }, (_, x) =>
      Array.from({ length: height - plotBox.bottom * 2 - 80 }, (_, y) => y + 80).some((y) => ink(x, y)),
    );
    const first = columns.indexOf(true);
    const gap = columns.indexOf(false, columns.indexOf(true, first));
    const blanks = columns.slice(gap).indexOf(true);
    expect(first).toBeGreaterThanOrEqual(2);
    expect(blanks).toBeGreaterThanOrEqual(6); // between the label's descenders and the first digit
    expect(gap - first).toBeLessThanOrEqual(18); // nine rows of the label
  });
});
