import { defineConfig } from "vitest/config";
import base from "./vitest.config.ts";

// Mutation testing runs thousands of rounds: the property tests are shorter there, and only the tests beside the code run.
// MUTATE_TESTS names them, separated by commas.
process.env["FUZZ_RUNS"] ??= "60";
const include = process.env["MUTATE_TESTS"]?.split(",") ?? [
  "packages/tinklet/src/wire/**/*.test.ts",
  "test/parity/*.test.ts",
];

export default defineConfig({ ...base, test: { ...base.test, include, reporters: ["dot"] } });
