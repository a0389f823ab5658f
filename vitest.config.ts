import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// Tests run against the sources, so that a failing line is a line of ours and no build is needed first.
export default defineConfig({
  resolve: {
    alias: [
      { find: /^@tinklet\/wire$/, replacement: source("packages/wire/src/index.ts") },
      { find: /^@tinklet\/wire\/(client|errors|clock|abort|options)$/, replacement: source("packages/wire/src/$1.ts") },
      { find: /^@tinklet\/wire\/(autodiff|testing)$/, replacement: source("packages/wire/src/$1/index.ts") },
      { find: /^@tinklet\/wire\/optimizer$/, replacement: source("packages/wire/src/messages/optimizer.ts") },
      { find: /^tinklet$/, replacement: source("packages/tinklet/src/index.ts") },
      { find: /^tinklet\/wire$/, replacement: source("packages/tinklet/src/wire.ts") },
      { find: /^@tinklet\/models$/, replacement: source("packages/models/src/index.ts") },
      { find: /^@tinklet\/models\/(tokenizer|chat|config)$/, replacement: source("packages/models/src/$1/index.ts") },
      { find: /^tinklet\/testing$/, replacement: source("packages/tinklet/src/testing/index.ts") },
      { find: /^@tinklet\/engine$/, replacement: source("packages/engine/src/index.ts") },
      { find: /^@tinklet\/server$/, replacement: source("packages/server/src/index.ts") },
      { find: /^@tinklet\/cookbook$/, replacement: source("packages/cookbook/src/index.ts") },
      { find: /^@tinklet\/ai$/, replacement: source("packages/ai/src/index.ts") },
      { find: /^@tinklet\/studio$/, replacement: source("packages/studio/src/index.ts") },
      { find: /^@tinklet\/conformance$/, replacement: source("packages/conformance/src/index.ts") },
    ],
  },
  test: {
    include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts", "examples/**/*.test.ts"],
    exclude: ["**/node_modules/**", "**/dist/**", "test/python/**"],
    // Vitest leaves a core free, which on two of them is half the machine.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    typecheck: { enabled: false },
    // A guard against what hangs, not a judgement of speed: at a load of 25 on two cores the slowest took more than 30 s.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: process.env["CI"] ? ["dot"] : ["default"],
  },
});
