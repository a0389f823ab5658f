import { defineConfig } from "tsdown";

export default defineConfig({
  entry: { index: "src/index.ts", "side-worker": "src/thread/side-worker.ts" },
  format: "esm",
  platform: "node",
  fixedExtension: false, // .js, as package.json says
  target: "es2022",
  dts: true,
  sourcemap: true,
  clean: true,
  inputOptions: { checks: { pluginTimings: false } },
});
