// Bundles TypeScript sources of this repository into one .mjs file that plain Node runs: scripts that start servers as
// processes of their own use it, so that they need no build first. Native packages stay outside the bundle.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * @param {string} entry path relative to the repository
 * @returns {Promise<string>} path of the bundle
 */
export async function bundle(entry) {
  const folder = join(root, "node_modules", ".cache", "tinklet");
  mkdirSync(folder, { recursive: true });
  const outfile = join(folder, `${entry.replace(/[^a-z0-9]+/gi, "-")}.mjs`);
  await build({
    absWorkingDir: root,
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    logLevel: "error",
    external: ["libsql", "onnxruntime-node", "onnxruntime-web", "@bokuweb/zstd-wasm", "@huggingface/*"],
    alias: {
      tinklet: join(root, "packages/tinklet/src/index.ts"),
      "tinklet/wire": join(root, "packages/tinklet/src/wire/index.ts"),
      "@tinklet/engine": join(root, "packages/engine/src/index.ts"),
      "@tinklet/server": join(root, "packages/server/src/index.ts"),
    },
    banner: { js: 'import { createRequire as __cr } from "node:module"; const require = __cr(import.meta.url);' },
  });
  return outfile;
}
