import { defineConfig } from "tsdown";

export default defineConfig({
  entry: { index: "src/index.ts", portable: "src/portable.ts", "side-worker": "src/thread/side-worker.ts" },
  format: "esm",
  platform: "neutral", // "node" adds an import of node:module to chunks that the entries for browsers share
  fixedExtension: false, // .js, as package.json says
  target: "es2022",
  dts: true,
  banner: { dts: '/// <reference lib="esnext.disposable" />' }, // what `await using` needs, for projects that name no `lib`
  sourcemap: true,
  clean: true,
  deps: { neverBundle: [/^node:/] },
  inputOptions: { checks: { pluginTimings: false } },
});
