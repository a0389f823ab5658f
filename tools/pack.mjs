// Packs the packages of the workspace as `npm publish` would, and checks what is in the tarballs. Used by the package checks and by
// the release.
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("..", import.meta.url));
const readJson = (path) => JSON.parse(readFileSync(join(root, path), "utf8"));

/** The packages of the workspace, in the order of its manifest: { path, manifest }. */
export const workspacePackages = () =>
  readJson("package.json").workspaces.map((path) => ({ path, manifest: readJson(`${path}/package.json`) }));

/** The sources of all packages, tests left out: path → text. */
export const packageSources = () =>
  Object.fromEntries(
    workspacePackages()
      .filter(({ path }) => existsSync(join(root, path, "src")))
      .flatMap(({ path }) =>
        readdirSync(join(root, path, "src"), { recursive: true })
          .map((name) => `${path}/src/${name.replaceAll("\\", "/")}`)
          .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
          .map((file) => [file, readFileSync(join(root, file), "utf8")]),
      ),
  );

/** Packs every package into `folder`: name → { path, manifest, tarball, files, unpackedSize }. */
export async function pack(folder) {
  const args = ["pack", "--json", "--ignore-scripts", "--workspaces", "--pack-destination", folder];
  const options = { cwd: root, maxBuffer: 64 * 2 ** 20, shell: process.platform === "win32" };
  const found = JSON.parse((await promisify(execFile)("npm", args, options)).stdout);
  const byName = new Map((Array.isArray(found) ? found : Object.values(found)).map((packed) => [packed.name, packed]));
  return new Map(
    workspacePackages().map(({ path, manifest }) => {
      const { filename, files, unpackedSize } = byName.get(manifest.name);
      const tarball = join(folder, filename);
      return [manifest.name, { path, manifest, tarball, files: files.map((file) => file.path), unpackedSize }];
    }),
  );
}

/** The tarballs of a package and of those of ours that it depends on: what an install of it by name would fetch. */
export function tarballsOf(packages, name) {
  const needed = new Set([name]);
  for (const each of needed)
    for (const dependency of Object.keys(packages.get(each).manifest.dependencies ?? {}))
      if (packages.has(dependency)) needed.add(dependency);
  return [...needed].map((each) => packages.get(each).tarball);
}

/** @throws Error unless everything that a manifest promises is in the tarball, and nothing that is only for us. */
export function checkFiles({ manifest, files }) {
  const strange = files.filter((file) => /\.test\.|\.tsbuildinfo|node_modules|(^|\/)\.|\.d\.ts\.map$/.test(file));
  if (strange.length > 0) throw new Error(`${manifest.name}: the tarball holds ${strange.join(", ")}`);
  const targets = Object.values(manifest.exports).flatMap((target) =>
    typeof target === "string" ? [target] : Object.values(target),
  );
  const promised = [...targets, ...Object.values(manifest.bin ?? {}), "LICENSE", "README.md"].filter(
    (target) => !target.includes("*"),
  );
  const absent = promised.filter((target) => !files.includes(target.replace(/^\.\//, "")));
  if (absent.length > 0)
    throw new Error(`${manifest.name}: the tarball lacks ${absent.join(", ")}; npm run build first`);
}
