// Bundles TypeScript sources of this repository into files that plain Node runs: scripts that start servers as
// processes of their own use it, so that they need no build first. Native packages stay outside the bundle.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * @param {string} entry path relative to the repository
 * @returns {Promise<string>} path of the bundle
 */
export async function bundle(entry) {
  const name = entry.replace(/[^a-z0-9]+/gi, "-");
  const folder = join(root, "node_modules", ".cache", "tinklet", name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
  await build({
    absWorkingDir: root,
    // the engine and the server look for their threads beside the file that they were loaded from
    entryPoints: {
      main: entry,
      "worker/worker": "packages/engine/src/worker/worker.ts",
      "side-worker": "packages/server/src/thread/side-worker.ts",
    },
    outdir: folder,
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    logLevel: "error",
    ignoreAnnotations: true, // a module that is also imported lazily would be left out for having no side effects
    external: ["libsql", "onnxruntime-node", "onnxruntime-web", "@bokuweb/zstd-wasm", "@huggingface/*", "esbuild"],
    tsconfig: join(root, "tsconfig.json"), // its paths name the sources of our packages
    banner: { js: 'import { createRequire as __cr } from "node:module"; const require = __cr(import.meta.url);' },
  });
  return join(folder, "main.js");
}
