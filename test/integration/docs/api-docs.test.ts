/**
 * The documentation in the code: every public name of the SDK has a doc comment, and every example in one type-checks as it stands
 * and runs against a server that computes nothing. The code on the pages that users read first type-checks too.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import * as tinklet from "tinklet";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { listen, StubServer } from "../../../packages/sdk/src/testing/index.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const source = join(root, "packages/sdk/src");
const wire = join(root, "packages/wire/src");
const written = join(root, ".cache/doc-examples");

/** Examples that need what a test must not have; they are type-checked only. */
const notRun: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/ServiceClient\.local\(/, "trains the bundled model"],
  [/(?:load|get)Tokenizer\(/, "reads a tokenizer from the Hub"],
  [/exportCheckpoint\(/, "reads a base model, and writes a file"],
];

interface Example {
  readonly name: string;
  readonly code: string;
  readonly file: string;
}

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "gen" || entry.name === "cli" ? [] : sources(path);
    return path.endsWith(".ts") && !path.includes(".test") ? [path] : [];
  });
}

/** The blocks that `pattern` finds in a file; its group is the code. */
function blocksOf(path: string, pattern: RegExp): Example[] {
  const text = readFileSync(path, "utf8");
  return [...text.matchAll(pattern)].map((match) => {
    const line = text.slice(0, match.index).split("\n").length;
    const name = `${relative(path.startsWith(source) ? source : root, path)}:${line}`;
    return { name, code: match[1] as string, file: join(written, `${name.replace(/[^\w]+/g, "-")}.ts`) };
  });
}

/** The fenced blocks behind `@example`, without the comment's stars. */
const examplesOf = (path: string): Example[] =>
  blocksOf(path, /@example\s*\n\s*\* ```ts\n([\s\S]*?)\n\s*\* ```/g).map((example) => ({
    ...example,
    code: example.code.replace(/^\s*\* ?/gm, ""),
  }));

const packages = readdirSync(join(root, "packages")).map((name) => `packages/${name}/README.md`);
const pages = [
  "README.md",
  "docs/your-project.md",
  "docs/from-python.md",
  "docs/conformance.md",
  "docs/cookbook.md",
  ...packages,
].flatMap((page) => blocksOf(join(root, page), /^```ts\n([\s\S]*?)\n```/gm));

const publicNames = new Set(Object.keys(tinklet));
const autodiffNames = new Set(Object.keys(tinklet.autodiff));
const sceneNames = [
  ...readFileSync(new URL("scene.ts", import.meta.url), "utf8").matchAll(/^ {2}readonly (\w+):/gm),
].map(([, name]) => name as string);

/** An example as a module: what it takes as given in front of it. Types are imported too; the compiler drops them. */
function moduleOf({ code }: Example, types: ReadonlySet<string>): string {
  const declared = new Set(
    [...code.matchAll(/\b(?:const|let|using|class|function|interface|type) (\w+)/g)].map(([, n]) => n),
  );
  for (const [, names] of code.matchAll(/\b(?:const|import) (?:type )?\{([^}]+)\}/g)) {
    for (const name of (names as string).split(",")) declared.add(name.split(":").at(-1)?.trim() ?? "");
  }
  const used = new Set(code.match(/(?<![.\w"'/])[A-Za-z_]\w*/g) ?? []);
  const wanted = (names: Iterable<string>) => [...names].filter((name) => used.has(name) && !declared.has(name));
  const lines = [
    `import { ${wanted(publicNames).join(", ")} } from "tinklet";`,
    `import type { ${wanted([...types].filter((name) => !publicNames.has(name))).join(", ")} } from "tinklet";`,
    `import { ${wanted([...autodiffNames].filter((name) => !publicNames.has(name))).join(", ")} } from "${wire}/autodiff/index.ts";`,
    `import { scene } from "${join(root, "test/integration/docs/scene.ts")}";`,
  ];
  const given = wanted(sceneNames);
  if (given.length > 0) lines.push(`const { ${given.join(", ")} } = await scene();`);
  const imports = code.match(/^import .*$/gm) ?? [];
  return `${[...imports, ...lines].join("\n")}\n${code.replace(/^import .*$/gm, "")}\nexport {};\n`;
}

const examples = [...sources(source), ...sources(wire)].flatMap(examplesOf);
const entries = ["index.ts", "testing/index.ts"].map((file) => join(source, file));
const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile) as {
  config: { compilerOptions: object };
};
const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
let program: ts.Program;
let checker: ts.TypeChecker;

const exportsOf = (file: string): ts.Symbol[] => {
  const module = checker.getSymbolAtLocation(program.getSourceFile(file)!)!;
  return checker.getExportsOfModule(module);
};
const resolved = (symbol: ts.Symbol) =>
  symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
const isDocumented = (symbol: ts.Symbol) =>
  ts.displayPartsToString(symbol.getDocumentationComment(checker)).trim() !== "";

/** Members that a caller sees. `name` is what every error has. */
function membersOf(symbol: ts.Symbol): ts.Symbol[] {
  if (!(symbol.flags & ts.SymbolFlags.Class)) return [];
  return [...(symbol.members?.values() ?? []), ...(symbol.exports?.values() ?? [])].filter((member) => {
    const declaration = member.declarations?.[0];
    if (declaration === undefined || !ts.isClassElement(declaration) || ts.isConstructorDeclaration(declaration))
      return false;
    if (declaration.name !== undefined && ts.isPrivateIdentifier(declaration.name)) return false;
    if (ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Private) return false;
    return member.name !== "name" && !ts.getJSDocTags(declaration).some(({ tagName }) => tagName.text === "internal");
  });
}

/** Names without a doc comment, as a reader would write them. */
function undocumented(symbol: ts.Symbol, path: string): string[] {
  const target = resolved(symbol);
  if (target.flags & ts.SymbolFlags.ValueModule) {
    return checker.getExportsOfModule(target).flatMap((inner) => undocumented(inner, `${path}.${inner.name}`));
  }
  const missing = isDocumented(target) ? [] : [path];
  return [
    ...missing,
    ...membersOf(target).flatMap((member) => (isDocumented(member) ? [] : [`${path}.${member.name}`])),
  ];
}

beforeAll(() => {
  program = ts.createProgram(entries, options);
  checker = program.getTypeChecker();
  const types = new Set(exportsOf(entries[0]!).map(({ name }) => name));
  rmSync(written, { recursive: true, force: true });
  mkdirSync(written, { recursive: true });
  for (const example of [...examples, ...pages]) writeFileSync(example.file, moduleOf(example, types));
  program = ts.createProgram(
    [...entries, ...[...examples, ...pages].map(({ file }) => file)],
    options,
    undefined,
    program,
  );
  checker = program.getTypeChecker();
}, 120_000);
afterAll(() => rmSync(written, { recursive: true, force: true }));

describe("the public SDK", () => {
  it.each(entries.map((entry) => [relative(source, entry), entry] as const))(
    "%s has a doc comment on every name",
    (_, entry) => {
      expect(exportsOf(entry).flatMap((symbol) => undocumented(symbol, symbol.name))).toEqual([]);
    },
  );

  it("a name without one is noticed", () => {
    const bare = ts.createSourceFile("bare.ts", "export class Bare { open() {} }", ts.ScriptTarget.Latest, true);
    const host = {
      ...ts.createCompilerHost({}),
      getSourceFile: (name: string) => (name === "bare.ts" ? bare : undefined),
    };
    const inner = ts.createProgram(["bare.ts"], { noLib: true }, host).getTypeChecker();
    const outer = checker;
    checker = inner;
    const found = inner
      .getExportsOfModule(inner.getSymbolAtLocation(bare)!)
      .flatMap((symbol) => undocumented(symbol, symbol.name));
    checker = outer;
    expect(found).toEqual(["Bare", "Bare.open"]);
  });

  it.each([
    "ServiceClient",
    "TrainingClient",
    "SamplingClient",
    "RestClient",
    "APIFuture",
    "Var",
    "TinkerError",
    "Datum",
  ])("%s shows how it is used", (name) => {
    const symbol = resolved(exportsOf(entries[0]!).find((candidate) => candidate.name === name)!);
    expect(symbol.getJsDocTags(checker).map((tag) => tag.name)).toContain("example");
  });
});

describe("examples in doc comments and on the pages that users read first", () => {
  beforeAll(async () => {
    vi.spyOn(console, "log").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    const listener = await listen(new StubServer());
    vi.stubEnv("TINKER_BASE_URL", listener.url);
    vi.stubEnv("TINKER_API_KEY", "tml-example");
    return () => {
      vi.restoreAllMocks();
      vi.unstubAllEnvs();
      return listener.close();
    };
  });

  it.each([...examples, ...pages].map((example) => [example.name, example] as const))(
    "%s type-checks",
    (_, { file }) => {
      const parsed = program.getSourceFile(file)!;
      const problems = [...program.getSyntacticDiagnostics(parsed), ...program.getSemanticDiagnostics(parsed)];
      expect(problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"))).toEqual([]);
    },
  );

  it.each(
    examples
      .filter(({ code }) => !notRun.some(([pattern]) => pattern.test(code)))
      .map(({ name, file }) => [name, file]),
  )("%s runs", async (_, file) => {
    await import(/* @vite-ignore */ file as string);
  });
});
