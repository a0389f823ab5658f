import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    "tokenizer/index": "src/tokenizer/index.ts",
    "chat/index": "src/chat/index.ts",
    "config/index": "src/config/index.ts",
    "bytes/index": "src/bytes/index.ts",
  },
  format: "esm",
  platform: "neutral", // the entries without node: run in a browser
  target: "es2022",
  dts: true,
  sourcemap: true,
  clean: true,
  deps: { neverBundle: [/^node:/] },
  inputOptions: { checks: { pluginTimings: false } },
});
