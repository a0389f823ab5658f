/**
 * Curves as a PNG, without an image library: lines are drawn into a pixel buffer with soft edges, letters come from a bitmap
 * font, and the file is `node:zlib` plus four chunks. Same layout as the SVG, twice the pixels.
 */
import { crc32, deflateSync } from "node:zlib";
import { capRows, letterColumns, textColumns, textPixels } from "./bitmap-font.ts";
import { finite, frameOf, type PictureOptions, pictureColours, plotBox, plotSize } from "./plot-svg.ts";
import { type Series, tick } from "./plot-terminal.ts";

const scale = 2;
/** Pixels of the picture for one of the font, in labels and in the title. */
const [labelDot, titleDot] = [2, 3];
type Colour = readonly [red: number, green: number, blue: number];

class Canvas {
  readonly width = plotSize.width * scale;
  readonly height = plotSize.height * scale;
  readonly pixels = new Uint8Array(this.width * this.height * 3).fill(255);

  /** A line with round ends; coordinates and width in units of the picture. */
  line(from: readonly [number, number], to: readonly [number, number], width: number, colour: Colour): void {
    const [ax, ay, bx, by] = [from[0] * scale, from[1] * scale, to[0] * scale, to[1] * scale];
    const half = (width * scale) / 2;
    const [dx, dy] = [bx - ax, by - ay];
    const length2 = dx * dx + dy * dy;
    for (let y = Math.floor(Math.min(ay, by) - half - 1); y <= Math.max(ay, by) + half + 1; y++) {
      for (let x = Math.floor(Math.min(ax, bx) - half - 1); x <= Math.max(ax, bx) + half + 1; x++) {
        const along = length2 === 0 ? 0 : Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / length2));
        const distance = Math.hypot(x - ax - along * dx, y - ay - along * dy);
        this.#blend(x, y, Math.min(1, half + 0.5 - distance), colour);
      }
    }
  }

  #blend(x: number, y: number, cover: number, colour: Colour): void {
    if (cover <= 0 || x < 0 || y < 0 || x >= this.width || y >= this.height) return;
    const at = (y * this.width + x) * 3;
    for (let i = 0; i < 3; i++) {
      const under = this.pixels[at + i] as number;
      this.pixels[at + i] = Math.round(under + ((colour[i] as number) - under) * cover);
    }
  }

  /** Text with its baseline at y; `at` says where x is. Each pixel of the font is a square of `dot` pixels of the picture. */
  text(
    text: string,
    x: number,
    y: number,
    options: { dot?: number; at?: "start" | "middle" | "end"; colour?: Colour; up?: boolean } = {},
  ) {
    const { dot = labelDot, at = "start", colour = [60, 67, 74], up = false } = options;
    const width = textColumns(text) * dot;
    const from = at === "start" ? 0 : Math.round(at === "middle" ? -width / 2 : -width);
    const [left, base] = [Math.round(x * scale), Math.round(y * scale)];
    for (const [column, row] of textPixels(text)) {
      const [along, down] = [from + column * dot, (row - capRows) * dot];
      for (let i = 0; i < dot * dot; i++) {
        const [dx, dy] = [along + (i % dot), down + Math.floor(i / dot)];
        this.#blend(up ? left + dy : left + dx, up ? base - dx : base + dy, 1, colour);
      }
    }
  }

  png(): Uint8Array {
    const header = Buffer.alloc(13);
    header.writeUInt32BE(this.width, 0);
    header.writeUInt32BE(this.height, 4);
    header.set([8, 2, 0, 0, 0], 8); // 8 bits, red green blue, no interlace
    const row = this.width * 3;
    const rows = Buffer.alloc((row + 1) * this.height); // each row begins with its filter, 0 for none
    for (let y = 0; y < this.height; y++) rows.set(this.pixels.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
    const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
    const parts = [chunk("IHDR", header), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))];
    return Buffer.concat([signature, ...parts]);
  }
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(data.length, 0);
  ends.writeUInt32BE(crc32(body), 4);
  return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
}

const rgb = (hex: string): Colour =>
  [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Colour;

/** The picture as a PNG file. */
export function pngPlot(series: readonly Series[], options: PictureOptions): Uint8Array {
  const shown = finite(series);
  const { x, y, xTicks, yTicks } = frameOf(shown);
  const canvas = new Canvas();
  const [right, bottom] = [plotSize.width - plotBox.right, plotSize.height - plotBox.bottom];
  canvas.text(options.title, plotBox.left, 30, { dot: titleDot, colour: [20, 24, 28] });
  for (const value of yTicks) {
    canvas.line([plotBox.left, y(value)], [right, y(value)], 1, [227, 230, 234]);
    canvas.text(tick(value), plotBox.left - 10, y(value) + 4, { at: "end" });
  }
  canvas.line([plotBox.left, bottom], [right, bottom], 1, [138, 146, 155]);
  for (const value of xTicks) {
    canvas.line([x(value), bottom], [x(value), bottom + 5], 1, [138, 146, 155]);
    canvas.text(tick(value), x(value), bottom + 20, { at: "middle" });
  }
  canvas.text(options.xLabel ?? "step", (plotBox.left + right) / 2, bottom + 40, { at: "middle" });
  canvas.text(options.yLabel, 16, (plotBox.top + bottom) / 2, { at: "middle", up: true });
  let offset = plotBox.left;
  shown.forEach(({ name, points }, index) => {
    const colour = rgb(pictureColours[index % pictureColours.length] as string);
    const placed = points.map(([px, py]): [number, number] => [x(px), y(py)]);
    placed.forEach((point, at) => {
      canvas.line(placed[Math.max(at - 1, 0)] as [number, number], point, placed.length === 1 ? 6 : 2, colour);
    });
    canvas.line([offset, plotSize.height - 24], [offset + 18, plotSize.height - 24], 4, colour);
    canvas.text(name, offset + 26, plotSize.height - 20);
    offset += 50 + (name.length * letterColumns * labelDot) / scale;
  });
  return canvas.png();
}
