// What Biome cannot check: promises that are not awaited, which needs types, and the words of comments and messages.
import tseslint from "typescript-eslint";
import { plainWords } from "./tools/eslint/plain-words.mjs";

/** Packages whose comments and messages have not been rewritten yet. Remove a package from the list once it passes. */
const notYetPlain = ["ai", "cli", "cookbook", "engine", "sdk", "server", "tinklet", "wire"];

export default tseslint.config(
  { ignores: ["**/dist/**", "**/gen/**", "**/*.mjs", "**/*.cjs", "**/*.js", ".venv/**", "**/*.test-d.ts"] },
  {
    files: ["**/*.ts"],
    languageOptions: { parser: tseslint.parser, parserOptions: { projectService: true } },
    plugins: { "@typescript-eslint": tseslint.plugin },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@typescript-eslint/no-floating-promises": ["error", { checkThenables: true }],
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/await-thenable": "error",
    },
  },
  {
    files: ["packages/*/src/**/*.{ts,tsx}"],
    ignores: notYetPlain.map((name) => `packages/${name}/**`),
    languageOptions: { parser: tseslint.parser },
    plugins: { words: { rules: { "plain-words": plainWords } } },
    rules: { "words/plain-words": "error" },
  },
);
