/** A release that is not in order is refused, with the reason; CI runs everywhere what it says it runs. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { packageSources } from "../../tools/pack.mjs";
import {
  changelogEntry,
  constantProblems,
  type Manifest,
  provenanceProblems,
  publishOrder,
  versionProblems,
} from "../../tools/release-plan.mjs";

const path = (relative: string) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));
const read = (relative: string) => readFileSync(path(relative), "utf8");
const manifests = (JSON.parse(read("package.json")) as { workspaces: string[] }).workspaces.map(
  (folder) => JSON.parse(read(`${folder}/package.json`)) as Manifest,
);
const version = manifests[0]!.version;

describe("release", () => {
  it("this tree's versions are in step, its changelog has their entry, and it can be published with provenance", () => {
    expect(versionProblems(manifests)).toEqual([]);
    expect(constantProblems(packageSources(), version)).toEqual([]);
    expect(provenanceProblems(manifests)).toEqual([]);
    expect(changelogEntry(read("CHANGELOG.md"), version).text).not.toBe("");
  });

  it.each([
    ["a package of another version", { version: "9.9.9" }, "is 9.9.9"],
    ["a dependency on another version", { dependencies: { tinklet: "^0.1.0" } }, "asks for tinklet ^0.1.0"],
    ["an optional peer of another version", { peerDependencies: { tinklet: "0.0.9" } }, "asks for tinklet 0.0.9"],
    [
      "development against another version",
      { devDependencies: { tinklet: "0.0.9" } },
      "is developed with tinklet 0.0.9",
    ],
  ])("%s is a problem", (_, change, expected) => {
    const changed = manifests.map((manifest) =>
      manifest.name === "@tinklet/cookbook" ? { ...manifest, ...change } : manifest,
    );
    expect(versionProblems(changed)).toEqual([expect.stringContaining(`@tinklet/cookbook ${expected}`)]);
  });

  it("a constant of another version is a problem, wherever it stands", () => {
    const constants = Object.values(packageSources()).flatMap(
      (text) => text.match(/(\w*[vV]ersion) = "\d+\.\d+\.\d+"/g) ?? [],
    );
    expect(constants.length).toBeGreaterThanOrEqual(3); // the SDK's, the kit's, and the one of the official SDK
    const sources = {
      "a.ts": 'const packageVersion = "9.9.9"; const mirroredSdkVersion = "0.25.0";',
      "b.ts": `x = "${version}"`,
    };
    expect(constantProblems(sources, version)).toEqual([`a.ts: packageVersion is 9.9.9, not ${version}`]);
  });

  it("a package without provenance, or a private one, is a problem", () => {
    const package_ = { name: "a", version: "1.0.0" };
    const publishConfig = { access: "public", provenance: true };
    expect(provenanceProblems([{ ...package_, publishConfig }])).toEqual([]);
    expect(provenanceProblems([package_])).toEqual([expect.stringContaining("lacks publishConfig")]);
    expect(provenanceProblems([{ ...package_, publishConfig, private: true }])).toEqual(["a is private"]);
  });

  it("the changelog needs an entry of the version, with text, dated or unreleased", () => {
    const page =
      "# Changelog\n\n## 1.1.0 (unreleased)\nNew.\n\n## 1.0.0 (2026-01-31)\nFirst.\n\n## 0.9.0 (soon)\nx\n\n## 0.8.0 (unreleased)\n";
    expect(changelogEntry(page, "1.1.0")).toEqual({ date: undefined, text: "New." });
    expect(changelogEntry(page, "1.0.0")).toEqual({ date: "2026-01-31", text: "First." });
    expect(() => changelogEntry(page, "1.2.0")).toThrow('no entry "## 1.2.0 (date)"');
    expect(() => changelogEntry(page, "0.9.0")).toThrow("must end with (unreleased) or with a date");
    expect(() => changelogEntry(page, "0.8.0")).toThrow("is empty");
  });

  it("nothing is published before what it needs", () => {
    const order = publishOrder([...manifests].reverse()).map(({ name }) => name);
    expect([...order].sort()).toEqual(manifests.map(({ name }) => name).sort());
    for (const { name, dependencies = {} } of manifests)
      for (const needed of Object.keys(dependencies))
        if (order.includes(needed))
          expect(order.indexOf(needed), `${needed} before ${name}`).toBeLessThan(order.indexOf(name));
    const circle = [
      { name: "a", version, dependencies: { b: version } },
      { name: "b", version, dependencies: { a: version } },
    ];
    expect(() => publishOrder(circle)).toThrow("depends on itself");
  });
});

describe("continuous integration", () => {
  const steps = (...options: string[]) => {
    const done = spawnSync("bash", [path(".ci/run"), "--list", ...options], { encoding: "utf8" });
    expect(done.status, done.stderr).toBe(0);
    return done.stdout.trim().split("\n");
  };
  const name = (line: string) => /^(?:step|skip) {2}(.*?)(?:: [^:]*(?<=only))?$/.exec(line)?.[1];

  it("the portable run names every step of the whole one; what it skips has a reason", () => {
    const whole = steps();
    const portable = steps("--portable");
    expect(whole.every((line) => line.startsWith("step  "))).toBe(true);
    expect(portable.map(name)).toEqual(whole.map(name));
    const skipped = portable.filter((line) => line.startsWith("skip"));
    expect(skipped.map(name)).toEqual([
      "the studio in a browser",
      "the engine in a browser",
      "parity with the official SDK",
      "interop suites",
    ]);
    for (const line of skipped) expect(line).toContain("on Debian only");
  });

  it("an unknown option is refused", () => {
    expect(spawnSync("bash", [path(".ci/run"), "--portabel"], { encoding: "utf8" })).toMatchObject({ status: 2 });
  });

  it("the workflow runs the whole on Debian and the portable part on macOS and Windows", () => {
    const [, debian = "", portable = ""] = read(".github/workflows/ci.yml").split(/^ {2}(?:debian|portable):$/m);
    expect(debian).toMatch(/container: node:20-bookworm/);
    expect(debian).toMatch(/run: bash \.ci\/run$/m);
    expect(portable).toMatch(/os: \[macos-latest, windows-latest\]/);
    expect(portable).toMatch(/run: bash \.ci\/run --portable$/m);
  });
});
