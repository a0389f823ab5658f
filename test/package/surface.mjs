/**
 * What each package offers to its users: every public name of every entry, with its kind and its types, one file per entry in
 * `surface/`. `surface.test.ts` fails when a report and the code differ; `node test/package/surface.mjs --write` writes them
 * again, and the difference is then there to be read in the change.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import ts from "typescript";

const root = fileURLToPath(new URL("../../", import.meta.url));
export const folder = join(root, "test/package/surface");
/** The most that is said of one type: beyond it a type is a table of its own, whose parts are listed where they are public. */
const longestType = 400;

/** Every entry that a package exports from its `dist`, with the source it is built from; a pattern names no entry. */
function entries() {
  return readdirSync(join(root, "packages")).flatMap((name) => {
    const { name: packageName, exports = {} } = JSON.parse(
      readFileSync(join(root, "packages", name, "package.json"), "utf8"),
    );
    return Object.entries(exports)
      .filter(([entry, target]) => target.types?.startsWith("./dist/") && !entry.includes("*"))
      .map(([entry, target]) => ({
        file: `${[packageName.replace("@tinklet/", ""), ...entry.split("/").slice(1)].join("-")}.txt`,
        title: `${packageName}${entry.slice(1)}`,
        source: join(root, "packages", name, target.types.replace("./dist/", "src/").replace(/\.d\.ts$/, ".ts")),
      }));
  });
}

/** The reports by file name. */
export function surfaceReports() {
  const all = entries();
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const program = ts.createProgram(
    all.map(({ source }) => source),
    { ...options, incremental: false, tsBuildInfoFile: undefined, types: ["node"] },
  );
  const checker = program.getTypeChecker();
  return new Map(all.map(({ file, title, source }) => [file, report(title, program.getSourceFile(source), checker)]));
}

function report(title, source, checker) {
  const runTime = runTimeNames(source, checker);
  const names = checker
    .getExportsOfModule(checker.getSymbolAtLocation(source))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((exported) => {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      return {
        name: exported.name,
        symbol,
        value: runTime.has(exported.name) && (symbol.flags & ts.SymbolFlags.Value) !== 0,
      };
    });
  const values = names.filter(({ value }) => value).length;
  const lines = names.flatMap(({ name, symbol, value }) => describe(name, symbol, value, checker));
  return `# ${title}: ${values} names at run time, ${names.length - values} types alone\n${lines.join("\n")}\n`;
}

/** The names of a module that `export type` does not take the value from. */
function runTimeNames(source, checker) {
  const names = new Set();
  for (const statement of source.statements) {
    if (!ts.isExportDeclaration(statement)) {
      // What a module declares itself: types among it have no value anyway.
      for (const { name } of checker.getExportsOfModule(checker.getSymbolAtLocation(source))) {
        const own = checker.tryGetMemberInModuleExports(name, checker.getSymbolAtLocation(source));
        if (own?.declarations?.some((node) => node.getSourceFile() === source && !ts.isExportSpecifier(node)))
          names.add(name);
      }
    } else if (!statement.isTypeOnly) {
      const { exportClause, moduleSpecifier } = statement;
      if (exportClause === undefined) {
        const from = checker.getSymbolAtLocation(moduleSpecifier).declarations[0];
        for (const name of runTimeNames(from, checker)) names.add(name);
      } else if (ts.isNamespaceExport(exportClause)) names.add(exportClause.name.text);
      else for (const { name, isTypeOnly } of exportClause.elements) if (!isTypeOnly) names.add(name.text);
    }
  }
  return names;
}

function describe(name, symbol, value, checker) {
  const at = symbol.valueDeclaration ?? symbol.declarations[0];
  const { flags } = symbol;
  const text = (type) =>
    shortened(
      checker.typeToString(
        type,
        at,
        ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope,
      ),
    );
  const members = (type, skip = new Set()) =>
    type
      .getProperties()
      .filter((member) => isPublic(member) && !skip.has(member.name))
      .map((member) => {
        const optional = member.flags & ts.SymbolFlags.Optional ? "?" : "";
        return `  ${label(member)}${optional}: ${text(checker.getTypeOfSymbolAtLocation(member, at))}`;
      })
      .sort();
  if (flags & ts.SymbolFlags.Class && value) {
    const made = checker.getTypeOfSymbolAtLocation(symbol, at);
    const constructors = made
      .getConstructSignatures()
      .map((signature) => `  new ${shortened(checker.signatureToString(signature))}`);
    const statics = members(made, new Set(["prototype"])).map((line) => `  static${line.slice(1)}`);
    return [`class ${name}`, ...constructors, ...statics, ...members(checker.getDeclaredTypeOfSymbol(symbol))];
  }
  const lines = [];
  if (value) {
    const kind = flags & ts.SymbolFlags.Function ? "function" : flags & ts.SymbolFlags.Module ? "namespace" : "const";
    const type = checker.getTypeOfSymbolAtLocation(symbol, at);
    if (kind === "namespace")
      return [
        `namespace ${name}`,
        ...checker
          .getExportsOfModule(symbol)
          .map((item) => `  ${item.name}`)
          .sort(),
      ];
    lines.push(`${kind} ${name}: ${text(type)}`);
  }
  if (flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class)) {
    lines.push(`interface ${name}`, ...members(checker.getDeclaredTypeOfSymbol(symbol)));
  } else if (flags & ts.SymbolFlags.TypeAlias) {
    const node = symbol.declarations.find(ts.isTypeAliasDeclaration);
    lines.push(`type ${name} = ${shortened(node.type.getText())}`);
  }
  return lines;
}

const label = ({ name }) => (name.startsWith("__@") ? `[${name.slice(3).split("@")[0]}]` : name);

function isPublic(member) {
  // What every Error has is not ours to change.
  const files = (member.declarations ?? []).map((node) => node.getSourceFile().fileName);
  if (files.length > 0 && files.every((file) => file.includes("/node_modules/"))) return false;
  if (member.name.startsWith("#") || member.name.startsWith("__#")) return false;
  return !(member.declarations ?? []).some(
    (node) =>
      ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Private ||
      ts.getJSDocTags(node).some(({ tagName }) => tagName.text === "internal"),
  );
}

function shortened(text) {
  // Where a type comes from is no part of it, and differs from machine to machine.
  const plain = text.replace(/import\("[^"]*"\)\./g, "").replace(/\s+/g, " ");
  return plain.length <= longestType ? plain : `${plain.slice(0, longestType)} …`;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const reports = surfaceReports();
  if (process.argv.includes("--write")) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const [file, text] of reports) writeFileSync(join(folder, file), text);
  } else {
    const stale = [...reports].filter(
      ([file, text]) => !readdirSync(folder).includes(file) || readFileSync(join(folder, file), "utf8") !== text,
    );
    for (const [file] of stale)
      console.error(`${basename(folder)}/${file} is not what the code says; node test/package/surface.mjs --write`);
    process.exitCode = stale.length === 0 ? 0 : 1;
  }
}
