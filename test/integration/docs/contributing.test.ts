/** CONTRIBUTING.md describes this tree: its map names every folder, and every command it gives is a script that exists. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const page = readFileSync(`${root}CONTRIBUTING.md`, "utf8");
const folders = (path: string) =>
  readdirSync(root + path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !/^(\.|node_modules$|dist$|coverage$|runs$|reports$)/.test(entry.name))
    .map((entry) => entry.name);

it("the map has a row for every package and every folder of the root", () => {
  const rows = [...page.matchAll(/^\| `([\w/-]+?)\/?` \|/gm)].map(([, path]) => path);
  const wanted = [
    ...folders("").filter((name) => name !== "packages"),
    ...folders("packages").map((name) => `packages/${name}`),
  ];
  expect(rows.filter((path) => path !== undefined && !path.startsWith("npm")).sort()).toEqual(wanted.sort());
});

it("every npm script that it names exists", () => {
  const { scripts } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as { scripts: Record<string, string> };
  const named = [...page.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name as string);
  expect(named.length).toBeGreaterThan(10);
  for (const name of named) expect(Object.keys(scripts)).toContain(name);
});
