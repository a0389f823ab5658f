/** The provider's tests on installed packages: every import of ours and of the AI SDK leads into the folder that `sdk.mjs` made. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import tsconfig from "../../../tsconfig.json" with { type: "json" };
import { installed } from "./installed.ts";

const left = /^@tinklet\/(browser|studio|conformance)/; // not installed, and nothing of the provider's imports them
const entries = [...Object.keys(tsconfig.compilerOptions.paths).filter((name) => !left.test(name)), "ai"];

export default defineConfig({
  root: fileURLToPath(new URL("../../..", import.meta.url)),
  resolve: { alias: entries.map((name) => ({ find: new RegExp(`^${name}$`), replacement: installed(name) })) },
  test: {
    include: ["packages/ai/src/**/*.test.ts", "test/interop/ai/*.check.ts"],
    // AI SDK 7 has no spans of its own: they moved to the package @ai-sdk/otel, which @tinklet/ai has not been tried with.
    exclude: process.env["AI_SDK"] === "ai7" ? ["packages/ai/src/span-tokens.test.ts"] : [],
    testTimeout: 60_000,
  },
});
