/** The entries for pages, bundled for a browser: no module of Node is reached. */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, it } from "vitest";

const source = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

it.each([
  ["@tinklet/browser", "browser/src/index.ts"],
  ["@tinklet/engine/browser", "engine/src/browser/index.ts"],
  ["@tinklet/engine/browser/worker", "engine/src/browser/worker.ts"],
  ["@tinklet/engine/errors", "engine/src/errors.ts"],
  ["@tinklet/server/portable", "server/src/portable.ts"],
])("%s bundles for a browser", async (_, entry) => {
  // esbuild fails for an import of Node's modules
  const { metafile } = await build({
    ...{ entryPoints: [source(entry)], bundle: true, write: false, metafile: true, format: "esm" },
    ...{ platform: "browser", target: "es2022", logLevel: "silent", outdir: "out" },
  });
  const inputs = Object.keys(metafile.inputs);
  expect(inputs.some((path) => path.endsWith(entry))).toBe(true);
  expect(
    inputs.filter((path) => /onnxruntime-node|libsql|koffi|hono|packages\/engine\/src\/device\//.test(path)),
  ).toEqual([]);
});
