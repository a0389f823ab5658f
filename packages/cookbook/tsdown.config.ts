import { defineConfig, type UserConfig } from "tsdown";

const common: UserConfig = {
  format: "esm",
  platform: "node",
  fixedExtension: false, // .js, as package.json says
  target: "es2022",
  dts: true,
  banner: { dts: '/// <reference lib="esnext.disposable" />' }, // what `await using` needs, for projects that name no `lib`
  sourcemap: true,
  inputOptions: { checks: { pluginTimings: false } },
};

export default defineConfig([
  // Figures have an entry of their own, which a page can bundle: they need no SDK and no files.
  {
    ...common,
    entry: { index: "src/index.ts", figures: "src/figures.ts", "mcp/index": "src/mcp/index.ts" },
    clean: true,
  },
  // The thread of the sandbox, which is a file of its own.
  {
    ...common,
    entry: { "code/sandbox-worker": "src/code/sandbox-worker.mjs" },
    dts: false,
    sourcemap: false,
    clean: false,
  },
  // Each recipe by itself, importing the package by its name, as a user's copy does.
  {
    ...common,
    entry: ["recipes/*.ts"],
    outDir: "dist/recipes",
    deps: { neverBundle: [/^@tinklet\/cookbook(\/mcp)?$/] },
    sourcemap: false,
    clean: false,
  },
]);
