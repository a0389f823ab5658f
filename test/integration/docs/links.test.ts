/**
 * The pages refer to what is there: every relative link in a Markdown file of the repository leads to a file, a folder or a
 * heading of it; every page of `docs/` can be reached from the README; reports are linked from their index.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const ignored = new Set(["node_modules", "dist", "coverage", "runs", "__pycache__"]);
/** Every file of the repository, as a path from its root; what git ignores is left out, and so are hidden folders. */
const tracked = (function files(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name);
    if (!entry.isDirectory()) return [path];
    return ignored.has(entry.name) || entry.name.startsWith(".") || path === "reports" ? [] : files(path);
  });
})("");
const pages = tracked.filter((path) => path.endsWith(".md"));

/** The relative targets of a page's links, as paths from the root; code blocks and inline code are not links. */
function links(page: string): { path: string; heading: string | undefined }[] {
  const text = readFileSync(join(root, page), "utf8")
    .replace(/^```[\s\S]*?^```/gm, "")
    .replace(/`[^`\n]*`/g, "code");
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target as string)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path = "", heading] = target.split("#");
      return { path: path === "" ? page : posix.normalize(posix.join(dirname(page), path)), heading };
    });
}
/** A heading's anchor as GitHub makes it. */
const anchor = (heading: string) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");
const anchors = (page: string) =>
  [...readFileSync(join(root, page), "utf8").matchAll(/^#+ (.*)$/gm)].map(([, text]) => anchor(text as string));

describe("links", () => {
  it.each(pages)("%s: every relative link leads somewhere", (page) => {
    for (const { path, heading } of links(page)) {
      expect(existsSync(join(root, path)), `${page} links to ${path}`).toBe(true);
      if (heading !== undefined && path.endsWith(".md"))
        expect(anchors(path), `${page} links to a heading of ${path}`).toContain(heading);
    }
  });

  it("every page of docs/ can be reached from the README", () => {
    const reached = new Set(["README.md"]);
    for (const page of reached)
      for (const { path } of links(page)) {
        const target = pages.includes(`${path.replace(/\/$/, "")}/README.md`)
          ? `${path.replace(/\/$/, "")}/README.md`
          : path;
        if (pages.includes(target)) reached.add(target);
        // a link to a folder without an index shows its files
        else for (const inside of pages) if (dirname(inside) === path.replace(/\/$/, "")) reached.add(inside);
      }
    expect(pages.filter((page) => page.startsWith("docs/") && !reached.has(page))).toEqual([]);
  });

  it("the index of the reports names each of them", () => {
    const named = links("docs/reports/README.md").map(({ path }) => path);
    const reports = tracked.filter((path) => path.startsWith("docs/reports/") && !path.endsWith("README.md"));
    expect(reports.filter((path) => !named.includes(path))).toEqual([]);
  });

  it("a path under docs/ that code or a page names exists", () => {
    for (const file of tracked) {
      if (!/\.(ts|mjs|cjs|js|py|md|json|sh)$/.test(file) || file.startsWith("packages/base-model/")) continue;
      const text = readFileSync(join(root, file), "utf8");
      for (const [path] of text.matchAll(/(?<![\w./-])docs\/[\w./-]*\w/g))
        expect(existsSync(join(root, path)), `${file} names ${path}`).toBe(true);
    }
  });
});
