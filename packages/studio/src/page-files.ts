/** Reads the files of the built page and compresses them, once. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { StudioFile } from "@tinklet/wire";

const names = {
  "/": ["index.html", "text/html; charset=utf-8"],
  "/studio/page.js": ["page.js", "text/javascript; charset=utf-8"],
  "/studio/page.css": ["page.css", "text/css; charset=utf-8"],
  "/studio/icon.svg": ["icon.svg", "image/svg+xml"],
} as const;

/** @throws Error if the page was not built. */
export async function loadPage(): Promise<ReadonlyMap<string, StudioFile>> {
  const files = Object.entries(names).map(async ([path, [name, contentType]]): Promise<[string, StudioFile]> => {
    // The relative path is the same from src/ and from dist/.
    const file = fileURLToPath(new URL(`../dist/page/${name}`, import.meta.url));
    const bytes = await readFile(file).catch((cause: unknown) => {
      throw new Error(`the studio page is not built: ${file} is missing; in this repository, run: npm run build`, {
        cause,
      });
    });
    const etag = `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 16)}"`;
    return [path, { bytes, gzip: gzipSync(bytes, { level: 9 }), contentType, etag }];
  });
  return new Map(await Promise.all(files));
}
