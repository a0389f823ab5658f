// Bundles the simulator with the real SDK and the real server. The server's disk, database driver and side threads are replaced by the
// simulator's, and a planted defect, where one is asked for, is a replacement of source text.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const root = fileURLToPath(new URL("../../..", import.meta.url));
const here = fileURLToPath(new URL(".", import.meta.url));

const replaced = new Map([
  ["node:fs", "disk-fs.ts"],
  ["node:fs/promises", "disk-fs-promises.ts"],
  ["libsql", "disk-libsql.ts"],
]);

const disk = {
  name: "simulated-disk",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(node:fs(\/promises)?|libsql)$/ }, ({ path, importer }) =>
      importer.includes("/packages/server/src/") ? { path: join(here, replaced.get(path)) } : undefined,
    );
    onLoad({ filter: /packages\/server\/src\/thread\/side-thread\.ts$/ }, ({ path }) => ({
      loader: "ts",
      contents: readFileSync(path, "utf8").replace(
        'import { startThread } from "@tinklet/engine";',
        `import { startThread } from ${JSON.stringify(join(here, "side-thread.ts"))};`,
      ),
    }));
  },
};

/** Replaces what a defect of `defects.mjs` names. */
const planted = (defect) => ({
  name: "planted-defect",
  setup({ onLoad }) {
    if (defect === undefined) return;
    onLoad({ filter: new RegExp(`${defect.file.replaceAll(/[.\\/]/g, "\\$&")}$`) }, ({ path }) => {
      const source = readFileSync(path, "utf8");
      const contents = (defect.edits ?? [defect]).reduce((text, { find, replace }) => {
        if (text.split(find).length !== 2) throw new Error(`${defect.name}: its text is not once in ${defect.file}`);
        return text.replace(find, () => replace);
      }, source);
      return { loader: "ts", contents };
    });
  },
});

/** @returns {Promise<string>} the path of a program that plain Node runs */
export async function bundleSimulator(defect) {
  const folder = join(root, "node_modules", ".cache", "tinklet", `simulate-${defect?.name ?? "clean"}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
  await build({
    absWorkingDir: root,
    entryPoints: { main: "test/drills/simulate/simulate-main.ts" },
    outdir: folder,
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    logLevel: "error",
    ignoreAnnotations: true, // a module that is also imported lazily would be left out for having no side effects
    external: ["libsql", "onnxruntime-node", "onnxruntime-web", "@bokuweb/zstd-wasm", "@huggingface/*", "esbuild"],
    tsconfig: join(root, "tsconfig.json"),
    banner: { js: 'import { createRequire as __cr } from "node:module"; const require = __cr(import.meta.url);' },
    plugins: [planted(defect), disk],
  });
  return join(folder, "main.js");
}
