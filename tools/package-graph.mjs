// The packages of the workspace and what their sources import of each other, tests left out: static, dynamic and type imports alike.
// `node tools/package-graph.mjs` writes the picture into docs/decisions/0019-packages.md; `--check` fails if the picture there differs.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import ts from "typescript";
import { workspacePackages } from "./pack.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const workspaces = workspacePackages();
const page = join(root, "docs/decisions/0019-packages.md");

/** Every specifier in a module's text: `import`, `export … from`, `import()`, `typeof import()`, types included. */
export function specifiers(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, false);
  const found = [];
  const visit = (node) => {
    const at =
      ts.isImportDeclaration(node) || ts.isExportDeclaration(node)
        ? node.moduleSpecifier
        : ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
          ? node.arguments[0]
          : ts.isImportTypeNode(node)
            ? node.argument.literal
            : undefined;
    if (at !== undefined && ts.isStringLiteralLike(at)) found.push(at.text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const isTest = (file) => /\.test(-d)?\.|\/testing\//.test(file);
const nameOf = (specifier) => specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");

/** The packages that a module names. A relative path counts as the package of the workspace that it leads to. */
export function packagesOf(file, text) {
  return specifiers(file, text).flatMap((specifier) => {
    if (!specifier.startsWith(".")) return [nameOf(specifier)];
    const target = resolve(dirname(file), specifier);
    return workspaces
      .filter(({ path }) => target.startsWith(join(root, path) + sep))
      .map(({ manifest }) => manifest.name);
  });
}

/** The packages, each with its manifest and the packages of any kind that its sources import: { manifest, own, others }. */
export function packageImports() {
  const names = new Set(workspaces.map(({ manifest }) => manifest.name));
  return workspaces.map(({ path, manifest }) => {
    const files = ["src", "recipes"].flatMap((folder) =>
      listed(join(root, path, folder)).filter((file) => /\.tsx?$/.test(file) && !isOnlyForTests(manifest, file)),
    );
    const imported = new Set(files.flatMap((file) => packagesOf(file, readFileSync(file, "utf8"))));
    imported.delete(manifest.name);
    return {
      manifest,
      own: [...imported].filter((name) => names.has(name)).sort(),
      others: [...imported].filter((name) => !names.has(name) && !name.startsWith("node:")).sort(),
    };
  });
}

/** Tests and their helpers, except a `testing` folder that the package exports. */
const isOnlyForTests = ({ exports = {} }, file) => isTest(file) && !("./testing" in exports && !file.includes(".test"));

function listed(folder) {
  try {
    return readdirSync(folder, { recursive: true, encoding: "utf8" }).map((file) => join(folder, file));
  } catch {
    return [];
  }
}

/** A cycle of packages, as a path, or undefined. */
export function findCycle(packages) {
  const imports = new Map(packages.map(({ manifest, own }) => [manifest.name, own]));
  const done = new Set();
  const walk = (name, path) => {
    if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
    if (done.has(name)) return undefined;
    for (const next of imports.get(name) ?? []) {
      const cycle = walk(next, [...path, name]);
      if (cycle !== undefined) return cycle;
    }
    done.add(name);
    return undefined;
  };
  for (const name of imports.keys()) {
    const cycle = walk(name, []);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}

const short = (name) => name.replace("@tinklet/", "");

/** The graph as Mermaid draws it; an arrow that a longer way says already is left out. */
export function mermaid(packages) {
  const imports = new Map(packages.map(({ manifest, own }) => [manifest.name, own]));
  const reaches = (from, to) => from === to || imports.get(from).some((next) => reaches(next, to));
  const lines = packages.flatMap(({ manifest: { name }, own }) =>
    own
      .filter((to) => !own.some((other) => other !== to && reaches(other, to)))
      .map((to) => `  ${short(name)} --> ${short(to)}`),
  );
  return `\`\`\`mermaid\ngraph TD\n${lines.join("\n")}\n\`\`\``;
}

const drawn = /```mermaid\n[\s\S]*?\n```/;
/** What the decision's page shows. */
export const drawnGraph = () => drawn.exec(readFileSync(page, "utf8"))?.[0];

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const picture = mermaid(packageImports());
  if (process.argv.includes("--check")) process.exitCode = drawnGraph() === picture ? 0 : 1;
  else writeFileSync(page, readFileSync(page, "utf8").replace(drawn, picture));
}
