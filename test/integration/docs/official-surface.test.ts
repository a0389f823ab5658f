/**
 * The pages that Python users read, against the official SDK's public surface (`official-surface.json`): nothing of it
 * may be missing, and nothing may be called done that has no test. That list itself is held against what was recorded from the
 * released packages, which `npm run parity` records again.
 */
import { existsSync, readFileSync } from "node:fs";
import * as tinklet from "tinklet";
import { describe, expect, it } from "vitest";
import surface from "./official-surface.json" with { type: "json" };

const root = new URL("../../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const methods = Object.entries(surface.methods).flatMap(([owner, list]) => list.map(({ name }) => `${owner}.${name}`));

/** The cells of every table row of a page whose first cell begins with a code span; that span without its arguments. */
function rowsOf(page: string): Map<string, string[]> {
  const rows = new Map<string, string[]>();
  for (const line of page.split("\n")) {
    const cells = line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim());
    for (const [, code] of cells[0]?.matchAll(/`([^`]+)`/g) ?? []) {
      const key = (code as string).replace(/\(.*$/, "");
      rows.set(key, cells);
    }
  }
  return rows;
}

describe.each(["0.25.0", "0.36.0"])("official-surface.json, against tinker %s as recorded", (release) => {
  const recorded = (name: string) => JSON.parse(read(`test/fixtures/tinker-${release}/${name}.json`));
  const { names, types, commands, methods: owners } = recorded("surface") as Record<string, string[]>;

  it("M-905: has every exported name, type, method and command", () => {
    const ofClasses = Object.entries(owners as unknown as Record<string, string[]>).flatMap(([owner, list]) =>
      list.map((name) => `${owner}.${name}`),
    );
    expect(ofClasses.length).toBeGreaterThan(40);
    const exported = new Set([...Object.keys(surface.methods), ...surface.errors, ...surface.others, ...surface.types]);
    const missing = [
      ...names!.filter((name) => !exported.has(name)),
      ...types!.filter((name) => !surface.types.includes(name)),
      ...ofClasses.filter((name) => !methods.includes(name)),
      ...commands!.filter((name) => !surface.commands.includes(name)),
    ];
    expect(missing).toEqual([]);
  });

  it("M-905: has every route that the source calls", () => {
    // A checkpoint's id is two parts here and one there, and placeholders have names of their own.
    const plain = (route: string) => route.replace("{kind}/{name}", "{}").replaceAll(/\{[^}]*\}/g, "{}");
    const known = new Set(surface.routes.map(plain));
    const called = (recorded("schemas").routes as { method: string; path: string }[]).map(
      ({ method, path }) => `${method} ${plain(path.replace("/api/v1", ""))}`,
    );
    expect(called.length).toBeGreaterThan(30);
    expect(called.filter((route) => !known.has(route))).toEqual([]);
  });
});

describe("docs/from-python.md", () => {
  const rows = rowsOf(read("docs/from-python.md"));
  it.each(methods)("M-905: has a twin for %s", (method) => {
    const twin = rows.get(method)?.[1] ?? "";
    expect(twin).not.toBe("");
  });
  it.each(surface.errors.filter((name) => !/^Sidecar|^Retryable|^APIError$/.test(name)))("M-905: names %s", (name) => {
    expect(read("docs/from-python.md")).toMatch(new RegExp(`\`(?:tinker\\.)?${name}\``));
  });
  it("M-905: a method that is missing is noticed", () => {
    expect(rows.get("TrainingClient.no_such_method")).toBeUndefined();
  });
});

describe("docs/PARITY.md", () => {
  const page = read("docs/PARITY.md");
  const rows = rowsOf(page);
  const wanted = [
    ...methods,
    ...surface.errors,
    ...surface.others,
    ...surface.types,
    ...surface.routes,
    ...surface.commands.map((command) => `tinker ${command}`),
  ];
  it("M-905: has a row with a state for every method, error, type, route and command", () => {
    const without = wanted.filter((name) => !["done", "different"].includes(rows.get(name)?.[2] ?? ""));
    expect(without).toEqual([]);
  });
  it("M-905: what is done names tests that exist, what is different says why", () => {
    const problems = wanted.flatMap((name) => {
      const [, , state, note = ""] = rows.get(name) as string[];
      if (state === "different") return note.length < 10 ? [`${name}: no reason`] : [];
      if (state !== "done") return [];
      const tests = [...note.matchAll(/`([^`]+\.test\.ts)`/g)].map((match) => match[1] as string);
      if (tests.length === 0) return [`${name}: done without a test`];
      return tests.filter((test) => !existsSync(new URL(test, root))).map((test) => `${name}: there is no ${test}`);
    });
    expect(problems).toEqual([]);
  });
  it("M-905: says for every method which behaviours were compared", () => {
    const section = page.slice(page.indexOf("### Behaviours compared"), page.indexOf("\n## Methods"));
    const said = new Set([...section.matchAll(/`(\w+\.\w+)`/g)].map((match) => match[1] as string));
    expect(methods.filter((method) => !said.has(method))).toEqual([]);
    const inTable = [...section.matchAll(/^\| \w[^|]*\|([^|]*)\|/gm)].flatMap(([, cell = ""]) =>
      [...cell.matchAll(/`(\w+\.\w+)`/g)].map((match) => match[1] as string),
    );
    expect(inTable.filter((name) => !methods.includes(name))).toEqual([]);
  });
  it("M-905: a method that is called done is there", () => {
    const classes = tinklet as unknown as Record<string, { prototype: object } | undefined>;
    const problems = methods.flatMap((method) => {
      const [, twins = "", state] = rows.get(method) as string[];
      if (state !== "done") return [];
      return [...twins.matchAll(/`(\w+)\.(\w+)`/g)]
        .filter(([, owner, name]) => {
          const found = classes[owner as string];
          if (found === undefined) return true;
          // fields of an instance are not on the prototype; the class's source names them
          const text = typeof found === "function" ? String(found) : "";
          return !(name! in found || name! in (found.prototype ?? {}) || text.includes(`this.${name}`));
        })
        .map(([twin]) => `${method}: ${twin}`);
    });
    expect(problems).toEqual([]);
  });
  it("M-904: the list of differences on the wire is short", () => {
    const section = /## Differences\n([\s\S]*?)\n###? /.exec(page)?.[1] ?? "";
    const items = section.match(/^\d+\. /gm) ?? [];
    expect(items.length).toBeGreaterThan(0);
    expect(items.length).toBeLessThanOrEqual(15);
  });
});
