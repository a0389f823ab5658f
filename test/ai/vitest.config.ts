/** The provider's tests on installed packages: every import of ours and of the AI SDK leads into the folder that `sdk.mjs` made. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { installed } from "./installed.ts";

const names = ["tinklet", "tinklet/wire", "@tinklet/ai", "@tinklet/cookbook", "@tinklet/engine", "@tinklet/server"];
const entries = [...names, "@tinklet/models", "@tinklet/models/chat", "@tinklet/models/tokenizer", "ai"];

export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  resolve: { alias: entries.map((name) => ({ find: new RegExp(`^${name}$`), replacement: installed(name) })) },
  test: { include: ["packages/ai/src/**/*.test.ts", "test/ai/*.check.ts"], testTimeout: 60_000 },
});
