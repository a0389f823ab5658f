// Node 20 does not read TypeScript: scripts that are run by hand bundle what they need of the sources into .cache/ first.
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Bundles a TypeScript module of this repository (path from its root) and imports it. */
export async function importSource(path) {
  const entry = join(root, path);
  const outfile = join(root, ".cache/bundles", `${path.replaceAll(/[^\w]+/g, "-")}.mjs`);
  mkdirSync(dirname(outfile), { recursive: true });
  await build({
    entryPoints: [entry],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    packages: "external",
    logLevel: "error",
    define: { "import.meta.url": JSON.stringify(pathToFileURL(entry).href) }, // fixtures are found from the sources
  });
  return import(pathToFileURL(outfile).href);
}
