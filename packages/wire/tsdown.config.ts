import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    client: "src/client.ts",
    "messages/optimizer": "src/messages/optimizer.ts",
    "autodiff/index": "src/autodiff/index.ts",
    errors: "src/errors.ts",
    clock: "src/clock.ts",
    entropy: "src/entropy.ts",
    "running-server": "src/running-server.ts",
    "run-name": "src/run-name.ts",
    abort: "src/abort.ts",
    otlp: "src/otlp.ts",
    options: "src/options.ts",
    "testing/index": "src/testing/index.ts",
  },
  format: "esm",
  platform: "neutral",
  target: "es2022",
  dts: true,
  sourcemap: true,
  clean: true,
  deps: { neverBundle: [/^node:/] }, // loaded only where there is Node
  inputOptions: { checks: { pluginTimings: false } },
});
