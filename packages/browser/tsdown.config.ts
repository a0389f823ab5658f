import { defineConfig } from "tsdown";

export default defineConfig({
  entry: { index: "src/index.ts" },
  format: "esm",
  platform: "neutral",
  target: "es2022",
  dts: true,
  banner: { dts: '/// <reference lib="esnext.disposable" />' }, // what `await using` needs, for projects that name no `lib`
  sourcemap: true,
  clean: true,
  inputOptions: { checks: { pluginTimings: false } },
});
