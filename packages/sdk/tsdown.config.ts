import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    "testing/index": "src/testing/index.ts",
    files: "src/files.ts",
    losses: "src/losses.ts",
    recovery: "src/recovery.ts",
    credentials: "src/credentials.ts",
    environment: "src/environment.ts",
  },
  format: "esm",
  platform: "neutral",
  target: "es2022",
  dts: true,
  banner: { dts: '/// <reference lib="esnext.disposable" />' }, // what `await using` needs, for projects that name no `lib`
  sourcemap: true,
  clean: true,
  deps: { neverBundle: [/^node:/] }, // loaded only where there is Node
  // Clients import each other when first needed: that breaks a circle of imports, and need not split the bundle.
  inputOptions: { checks: { pluginTimings: false, ineffectiveDynamicImport: false } },
});
