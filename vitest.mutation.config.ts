import { defineConfig, mergeConfig } from "vitest/config";
import base from "./vitest.config.ts";

// Mutation testing runs thousands of rounds: the property tests are shorter there, and only the mutated layers are tested.
process.env["FUZZ_RUNS"] ??= "60";

export default mergeConfig(
  base,
  defineConfig({
    test: { include: ["packages/tinklet/src/**/*.test.ts", "test/parity/*.test.ts"], reporters: ["dot"] },
  }),
);
