// Copies the example programs into the package `tinklet`, as JavaScript that Node 20 runs, with their README: an installed user finds them
// in node_modules/tinklet/examples. A part of `npm run build`.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Git ignores it; the package's manifest names it. */
const target = join(root, "packages", "tinklet", "examples");

const compilerOptions = {
  module: ts.ModuleKind.ESNext,
  target: ts.ScriptTarget.ES2022,
  verbatimModuleSyntax: true,
};

/** Commands and file names as they are beside the copies. */
const located = (text) =>
  text
    .replace(/^npm run build\n/gm, "")
    .replace(/node examples\/[\w-]+\/([\w-]+)\.ts/g, "node $1.mjs")
    .replace(/ *(?:# |\()Node 22\.18 or newer[^\n)]*\)?/g, "")
    .replace(/`([\w-]+)\.ts`/g, "`$1.mjs`");

rmSync(target, { recursive: true, force: true });
for (const example of readdirSync(join(root, "examples"), { withFileTypes: true })) {
  if (!example.isDirectory()) continue;
  const [from, to] = [join(root, "examples", example.name), join(target, example.name)];
  mkdirSync(to, { recursive: true });
  for (const file of readdirSync(from)) {
    const text = readFileSync(join(from, file), "utf8");
    if (file === "README.md") writeFileSync(join(to, file), located(text));
    if (!file.endsWith(".ts") || file.endsWith(".test.ts")) continue;
    const { outputText } = ts.transpileModule(text, { compilerOptions, fileName: file });
    const imports = outputText.replace(/(from "\.\/[\w-]+)\.ts"/g, '$1.mjs"');
    writeFileSync(join(to, file.replace(/\.ts$/, ".mjs")), located(imports));
  }
}
