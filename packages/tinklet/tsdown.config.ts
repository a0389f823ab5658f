import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    wire: "src/wire.ts",
    "testing/index": "src/testing/index.ts",
    "cli/main": "src/cli/main.ts",
  },
  format: "esm",
  platform: "neutral",
  target: "es2022",
  dts: true,
  banner: { dts: '/// <reference lib="esnext.disposable" />' }, // what `await using` needs, for projects that name no `lib`
  sourcemap: true,
  clean: true,
  deps: {
    neverBundle: [/^node:/], // loaded only where there is Node
    // The types of an optional package: written out, so that projects without it compile.
    alwaysBundle: (id, importer) => id.startsWith("@tinklet/models") && /\.d\.ts$/.test(importer ?? ""),
    onlyBundle: false,
  },
  // Clients import each other when first needed: that breaks a circle of imports, and need not split the bundle.
  inputOptions: { checks: { pluginTimings: false, ineffectiveDynamicImport: false } },
});
