import { defineConfig } from "vitest/config";
import base from "./vitest.config.ts";

// Mutation testing runs thousands of rounds: the property tests are shorter there, only the tests that tools/mutate.mjs names in
// MUTATE_TESTS (separated by commas) run, and a change that makes a test hang is noticed after seconds (MUTATE_TEST_MS; more on a busy
// machine).
process.env["FUZZ_RUNS"] ??= "60";
const include = process.env["MUTATE_TESTS"]?.split(",") ?? [];

export default defineConfig({
  ...base,
  test: { ...base.test, include, reporters: ["dot"], testTimeout: Number(process.env["MUTATE_TEST_MS"] ?? 5_000) },
});
