import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import tsconfig from "./tsconfig.json" with { type: "json" };

/** Every entry of our packages, as tsconfig.json names its source. */
const alias = Object.entries(tsconfig.compilerOptions.paths).map(([name, [path]]) => ({
  find: new RegExp(`^${name}$`),
  replacement: fileURLToPath(new URL(path as string, import.meta.url)),
}));

/** `npm run drill -- short` sets this: only the files that are too slow for `npm test`. */
const drills = process.env["VITEST_DRILLS"] === "1";

// Tests run against the sources, so that a failing line is a line of ours and no build is needed first.
export default defineConfig({
  resolve: { alias },
  test: {
    include: drills
      ? ["packages/*/src/**/*.drill.test.ts", "test/**/*.drill.test.ts"]
      : ["packages/*/src/**/*.test.ts", "test/**/*.test.ts", "examples/**/*.test.ts"],
    exclude: ["**/node_modules/**", "**/dist/**", ...(drills ? [] : ["**/*.drill.test.ts"])],
    // Vitest leaves a core free, which on two of them is half the machine.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    typecheck: { enabled: false },
    // A guard against what hangs, not a judgement of speed: at a load of 25 on two cores the slowest took more than 30 s.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: process.env["CI"] ? ["dot"] : ["default"],
  },
});
