/** The lint rule for words: it matches phrases in any layout of comments and strings, and is enabled for every other package. */
import { readdirSync } from "node:fs";
import { ESLint, Linter } from "eslint";
import tseslint from "typescript-eslint";
import { describe, expect, test } from "vitest";
import { phrases, plainWords } from "../../../tools/eslint/plain-words.mjs";

function found(code: string, filename = "file.ts"): string[] {
  const parser = tseslint.parser as Linter.Parser;
  const plugins = { words: { rules: { "plain-words": plainWords } } };
  const messages = new Linter().verify(
    code,
    [{ files: ["**/*.ts", "**/*.tsx"], languageOptions: { parser }, plugins, rules: { "words/plain-words": "error" } }],
    { filename },
  );
  return messages.map(({ message }) => /^"([^"]+)"/.exec(message)?.[1] ?? message);
}

describe("the rule finds a phrase", () => {
  test.each([
    ["in a block comment", "/** A poll that nobody waits for. */"],
    ["in capitals", "/* Nobody waits. */"],
    ["in a trailing comment", "export const a = 1; // nobody reads it"],
    ["in a string", 'throw new Error("nobody waits");'],
    ["in a template", "throw new Error(`nobody waits`);"],
    ["in a concatenation", 'throw new Error("no" + "body waits");'],
    ["in a test name", 'test("nobody waits", () => {});'],
  ])("%s", (_, code) => {
    expect(found(code)).toEqual(["nobody"]);
  });

  test.each([
    ["over two lines of a block comment", "/**\n * The run goes\n * on.\n */"],
    ["over two line comments", "// The run goes\n// on."],
    ["over the parts of a concatenation", 'throw new Error("the run goes " +\n "on");'],
    ["over the lines of a template", "throw new Error(`the run goes\n on`);"],
    ["with several spaces", 'throw new Error("the run goes   on");'],
  ])("%s", (_, code) => {
    expect(found(code)).toEqual(["goes on"]);
  });

  test("in JSX text", () => {
    expect(found("export const a = <p>The run goes\n on.</p>;", "file.tsx")).toEqual(["goes on"]);
  });
});

test.each([
  "// at most N, no more than that",
  "// undefined if there is none",
  "const nobody = 1;",
  "// It goes.\n\n// On the next line another comment.",
])("the rule accepts %j", (code) => {
  expect(found(code)).toEqual([]);
});

test("the list stays short", () => {
  expect(phrases.length).toBeLessThanOrEqual(25);
});

test("the rule is enabled for all packages except those that are not rewritten yet", async () => {
  const eslint = new ESLint({ cwd: new URL("../../..", import.meta.url).pathname });
  const enabled: string[] = [];
  for (const name of readdirSync(new URL("../../../packages", import.meta.url))) {
    const config = await eslint.calculateConfigForFile(`packages/${name}/src/index.tsx`);
    if (config?.rules?.["words/plain-words"]?.[0] === 2) enabled.push(name);
  }
  expect(enabled).toEqual(expect.arrayContaining(["base-model", "conformance", "models", "studio"]));
});
