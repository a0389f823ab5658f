// What Biome cannot check: promises that are not awaited, which needs types, and the words of comments and messages.
import tseslint from "typescript-eslint";
import { plainWords } from "./tools/eslint/plain-words.mjs";

/** Packages whose comments and messages have not been rewritten yet. Remove a package from the list once it passes. */
const notYetPlain = [];

const seam =
  "Use the clock, the entropy or the nextTurn that is passed in: the simulator (docs/decisions/0021-simulator.md) replaces them.";
const timers = ["setTimeout", "setInterval", "setImmediate", "performance"];
const methods = {
  Math: ["random"],
  Date: ["now"],
  crypto: ["randomUUID", "getRandomValues"],
  AbortSignal: ["timeout"],
  globalThis: timers,
  process: ["hrtime", "nextTick"],
};

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
    files: ["packages/{wire,sdk,server}/src/**/*.ts"],
    ignores: ["**/*.test.ts", "**/testing/**", "packages/wire/src/{clock,entropy}.ts"],
    languageOptions: { parser: tseslint.parser },
    rules: {
      "no-restricted-globals": ["error", ...timers.map((name) => ({ name, message: seam }))],
      "no-restricted-properties": [
        "error",
        ...Object.entries(methods).flatMap(([object, names]) =>
          names.map((property) => ({ object, property, message: seam })),
        ),
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: seam },
        {
          selector: "ImportDeclaration[source.value='node:crypto'] > ImportSpecifier[imported.name=/^random/]",
          message: seam,
        },
        { selector: "ImportDeclaration[source.value=/^node:timers/]", message: seam },
      ],
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
