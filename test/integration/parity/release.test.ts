// The report of `npm run parity -- --release X`, on the two committed recordings.
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface Recording {
  readonly version: string;
  readonly files: Readonly<Record<string, string>>;
  readonly signatures?: Readonly<Record<string, string>>;
  readonly sources?: readonly string[];
}
const { releaseChanges, releaseVersion, renderRelease } = (await import(
  "../../interop/parity/release.mjs" as string
)) as {
  releaseChanges: (older: Recording, newer: Recording) => Map<string, string[]>;
  renderRelease: (older: Recording, newer: Recording) => string;
  releaseVersion: (text: string | undefined) => string;
};

const recording = (version: string): Recording => {
  const folder = new URL(`../../fixtures/tinker-${version}/`, import.meta.url);
  const files = readdirSync(folder).map((file) => [
    file.replace(/\.json$/, ""),
    readFileSync(new URL(file, folder), "utf8"),
  ]);
  return { version, files: Object.fromEntries(files) };
};
const [older, newer] = [recording("0.25.0"), recording("0.36.0")];

it("names calls, commands, routes, types, fields and values that a release adds, changes and drops", () => {
  const changes = releaseChanges(
    { ...older, signatures: { "A.call": "(x)", "A.same": "()" } },
    {
      ...newer,
      signatures: { "A.call": "(x, y=None)", "A.same": "()", "A.new": "()" },
      sources: ["tinker/a.py +1 -0"],
    },
  );
  expect(changes.get("Methods and properties")).toContain("new: ServiceClient.copy_weights");
  expect(changes.get("Parameters of calls")).toEqual(["A.call: (x) → (x, y=None)"]);
  expect(changes.get("Exported names")).toContain("new: AdminClient");
  expect(changes.get("Commands")).toContain("new: auth login");
  expect(changes.get("Routes")).toContain("new: POST /api/v1/retrieve_futures");
  expect(changes.get("Routes")).toContain("gone: POST /api/v1/unload_model");
  expect(changes.get("Types")?.some((line) => /^GetSessionResponse: .*\+ display_name/.test(line))).toBe(true);
  expect(
    changes
      .get("Types")
      ?.some((line) => line.startsWith("new: AuditLogEntry") || line.startsWith("new: AdamOptimizerConfig")),
  ).toBe(true);
  expect(changes.get("Protobuf")?.some((line) => /^Datum: .*\+ model_input_spans/.test(line))).toBe(true);
  expect(changes.get("Recorded values: requests")?.length).toBeGreaterThan(10);
  expect(changes.get("Source files (lines added, removed)")).toEqual(["tinker/a.py +1 -0"]);
});

it("says of two equal releases that nothing differs", () => {
  for (const [title, lines] of releaseChanges(newer, { ...newer, version: "0.36.1" })) expect(lines, title).toEqual([]);
  const text = renderRelease(newer, { ...newer, version: "0.36.1" });
  expect(text).toMatch(/^# tinker 0\.36\.1 compared with 0\.36\.0\n\nWithout a difference: methods and properties/);
  expect(text).toContain("## To follow it");
});

it("takes versions only", () => {
  for (const good of ["0.38.0", "1.0.0rc1", "0.38.0.post1"]) expect(releaseVersion(good)).toBe(good);
  for (const bad of ["", "0.38", "../x", "0.38.0; rm", "--pre", "latest", undefined])
    expect(() => releaseVersion(bad)).toThrow("--release must be");
});
