/** The graph of packages: what the sources import, what the manifests declare and what the decision's table and picture say agree. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { drawnGraph, findCycle, mermaid, packageImports, packagesOf } from "../../tools/package-graph.mjs";

const packages = packageImports();
const page = readFileSync(new URL("../../docs/decisions/0019-packages.md", import.meta.url), "utf8");
/** The table of the decision: package → what it may import. */
const table = new Map(
  [...page.matchAll(/^\| `([^`]+)` \| [^|]+ \| ([^|]+) \|$/gm)].map(([, name = "", imports = ""]) => [
    name,
    imports === "–" ? [] : imports.split(", ").map((short) => `@tinklet/${short}`),
  ]),
);

it("has no cycle: static, dynamic and type imports of all sources but the tests", () => {
  expect(findCycle(packages)).toBeUndefined();
  const cyclic = packages.map((one) => (one.manifest.name === "@tinklet/wire" ? { ...one, own: ["tinklet"] } : one));
  expect(findCycle(cyclic)?.length).toBeGreaterThan(2);
});

it.each([
  ["a static import", 'import { a } from "@tinklet/sdk";'],
  ["a type import", 'import type { A } from "@tinklet/sdk/testing";'],
  ["an export", 'export { a } from "@tinklet/sdk";'],
  ["a dynamic import", 'const a = await import("@tinklet/sdk");'],
  ["a type of an import", 'type A = typeof import("@tinklet/sdk");'],
  ["a relative path", 'import { a } from "../../sdk/src/index.ts";'],
])("counts %s", (_, text) => {
  const file = fileURLToPath(new URL("../../packages/server/src/made-up.ts", import.meta.url));
  expect(packagesOf(file, text)).toEqual(["@tinklet/sdk"]);
});

it("is the picture in docs/decisions/0019-packages.md (node tools/package-graph.mjs draws it)", () => {
  expect(drawnGraph()).toBe(mermaid(packages));
});

describe.each(packages.map(({ manifest, own, others }) => [manifest.name, manifest, own, others] as const))(
  "%s",
  (name, manifest, own, others) => {
    const declared = { ...manifest.dependencies, ...manifest.optionalDependencies };

    it("declares every package that its sources import, ours at the exact version", () => {
      const peers = Object.keys(manifest.peerDependencies ?? {});
      const bundled = Object.keys(manifest.devDependencies ?? {}); // of the studio's page
      const known = new Set([
        ...Object.keys(declared),
        ...peers,
        ...(name === "@tinklet/studio" ? bundled : []),
        "esbuild",
      ]);
      expect([...own, ...others].filter((one) => !known.has(one))).toEqual([]);
      const needed: Record<string, string | undefined> = { ...manifest.devDependencies, ...declared };
      for (const one of own) expect(needed[one], one).toBe(manifest.version);
    });

    it("imports what the table of the decision says", () => {
      if (name === "tinklet") expect(own.filter((one) => declared[one] === undefined)).toEqual([]);
      else expect(own).toEqual([...(table.get(name) ?? ["no row"])].sort());
    });
  },
);
