/** The packages as one workspace: tests and types read sources, never a build; versions and licences are in step. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, it } from "vitest";
import vitestConfig from "../../vitest.config.ts";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly engines: { readonly node: string };
  readonly exports: Record<string, string | { readonly types: string; readonly default: string }>;
}
const path = (relative: string) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));
const read = <T>(file: string) => JSON.parse(readFileSync(path(file), "utf8")) as T;
const folders = read<{ workspaces: string[] }>("package.json").workspaces;
const { paths = {} } = ts.getParsedCommandLineOfConfigFile(
  path("tsconfig.json"),
  {},
  {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: () => {},
  },
)!.options;
const aliases = vitestConfig.resolve?.alias as { find: RegExp; replacement: string }[];

it("every file that a README of a source folder links to exists", () => {
  const readmes = folders.map((folder) => `${folder}/src/README.md`).filter((file) => existsSync(path(file)));
  expect(readmes.length).toBeGreaterThan(0);
  for (const readme of readmes) {
    const links = [...readFileSync(path(readme), "utf8").matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!);
    expect(links.length, readme).toBeGreaterThan(0);
    expect(
      links.filter((link) => !existsSync(path(`${readme.replace("README.md", "")}${link}`))),
      readme,
    ).toEqual([]);
  }
});

describe.each(folders)("%s", (folder) => {
  const manifest = read<Manifest>(`${folder}/package.json`);
  // what is built; the other entries are plain files, or patterns of files that nobody here imports by name
  const built = Object.entries(manifest.exports).filter(
    ([entry, target]) => !entry.includes("*") && typeof target === "object" && target.default.startsWith("./dist/"),
  );

  it("every entry is read from its source by the tests and by the compiler, so that neither needs a build", () => {
    for (const [entry] of built) {
      const name = `${manifest.name}${entry.slice(1)}`;
      const alias = aliases.find(({ find }) => find.test(name));
      const replacement = alias && name.replace(alias.find, alias.replacement);
      expect(replacement, `vitest.config.ts: an alias for ${name}`).toBeDefined();
      expect(existsSync(replacement as string), `${name} → ${replacement}`).toBe(true);
      expect(
        paths[name]?.map((target) => path(target)),
        `tsconfig.json: paths of ${name}`,
      ).toEqual([replacement]);
    }
  });

  it("has the version, licence and Node of the others, its licence file and a README", () => {
    const first = read<Manifest>(`${folders[0]}/package.json`);
    expect(manifest).toMatchObject({ version: first.version, license: first.license, engines: first.engines });
    for (const file of ["LICENSE", "README.md"]) expect(existsSync(path(`${folder}/${file}`)), file).toBe(true);
  });
});
