import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
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
interface Locked extends Manifest {
  readonly resolved?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly os?: string[];
  readonly cpu?: string[];
}
const lock = read<{ packages: Record<string, Locked> }>("package-lock.json");
const contributing = readFileSync(new URL("../../CONTRIBUTING.md", import.meta.url), "utf8");

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
  const without: string[] = [];
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (!path.includes("node_modules/") || entry.link) continue;
    expect(entry.resolved, path).toBeUndefined();
    // Only a build tool's optional package for one platform may lack it (CONTRIBUTING.md says why), nothing that a user gets.
    const foreign =
      entry.dev === true && entry.optional === true && (entry.os !== undefined || entry.cpu !== undefined);
    if (foreign && entry.integrity === undefined) without.push(path);
    else expect(entry.integrity, path).toMatch(/^sha512-/);
  }
  expect(contributing).toContain(`${without.length} entries`);
});

it("npm knows every setting of the project's .npmrc, so that it prints no warning about our configuration", () => {
  // only this project's settings: neither the user's file nor what an outer npm put into the environment
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_config_/i.test(name)));
  const done = spawnSync("npm", ["config", "get", "ignore-scripts"], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    encoding: "utf8",
    env: { ...env, npm_config_userconfig: "no-user-file", npm_config_globalconfig: "no-global-file" },
    shell: process.platform === "win32",
  });
  expect(done.stderr).toBe("");
  expect(done.stdout.trim()).toBe("true");
});
