import { defineConfig } from "tsdown";
import { buildPage } from "./build-page.ts";

export default defineConfig({
  entry: { index: "src/index.ts" },
  format: "esm",
  platform: "node",
  fixedExtension: false, // .js, as package.json says
  target: "es2022",
  dts: true,
  sourcemap: true,
  clean: true,
  inputOptions: { checks: { pluginTimings: false } },
  hooks: { "build:done": () => buildPage() },
});
