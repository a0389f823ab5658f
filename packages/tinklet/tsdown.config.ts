import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    wire: "src/wire.ts",
    testing: "src/testing.ts",
    "cli/main": "src/cli/main.ts",
  },
  format: "esm",
  platform: "neutral",
  target: "es2022",
  dts: true,
  sourcemap: true,
  clean: true,
  deps: { neverBundle: [/^node:/] },
  inputOptions: { checks: { pluginTimings: false } },
});
