import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface Manifest {
  readonly workspaces?: string[];
  readonly name?: string;
  readonly version?: string;
  readonly dependencies?: Record<string, string>;
  readonly devDependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
  readonly peerDependencies?: Record<string, string>;
}
const read = <T>(path: string) => JSON.parse(readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")) as T;
const lock = read<{
  packages: Record<string, Manifest & { resolved?: string; integrity?: string; link?: boolean; optional?: boolean }>;
}>("package-lock.json");

it("M-903: the lock file and the manifests agree, so that a clean install from it passes", () => {
  const { workspaces = [] } = read<Manifest>("package.json");
  for (const folder of ["", ...workspaces]) {
    const manifest = read<Manifest>(folder === "" ? "package.json" : `${folder}/package.json`);
    const locked = lock.packages[folder];
    for (const kind of ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"] as const) {
      expect(locked?.[kind] ?? {}, `${folder || "the root"}: ${kind}`).toEqual(manifest[kind] ?? {});
    }
    if (folder !== "")
      expect(lock.packages[`node_modules/${manifest.name}`]).toMatchObject({ resolved: folder, link: true });
  }
});

it("M-903: the lock file names no registry, and every package has its checksum", () => {
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (!path.includes("node_modules/") || entry.link) continue;
    expect(entry.resolved, path).toBeUndefined();
    // tools/complete-lock.mjs adds other platforms' packages, whose checksum a registry without them cannot tell
    const foreign = entry.optional === true && entry.integrity === undefined;
    if (!foreign) expect(entry.integrity, path).toMatch(/^sha512-/);
  }
});
