// Prompts of every family against `apply_chat_template` of transformers, token by token. `--write` records the families whose templates
// this repository has into templates.json, which the tests check without Python; the real templates come from the Python package trl.
// Exits 0 when every prompt was the same.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { createChecks } from "../chat/checks.mjs";
import { ensureVenv } from "../venv.mjs";
import { realTemplates } from "./real-templates.mjs";

const packages = ["transformers==5.22.2", "tokenizers", "jinja2"];
const fixture = join(root, "test/fixtures/chat/templates.json");
const python = ensureVenv("chat-templates", packages);
const templates = realTemplates(python);
const folder = mkdtempSync(join(tmpdir(), "tinklet-templates-"));
try {
  run(process.execPath, [await bundle("test/interop/templates/ours-main.ts"), templates, folder]);
  run(python, [
    join(root, "test/interop/templates/render.py"),
    join(folder, "input.json"),
    join(folder, "theirs.json"),
  ]);
  const [ours, theirs] = ["ours", "theirs"].map((name) =>
    JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")),
  );
  const checks = createChecks();
  const recorded = {};
  ours.forEach(({ name, rendered, format, turns }, at) => {
    const pairs = rendered.map((mine, i) => [mine, theirs[at][i]]);
    const refused = pairs.filter(([mine, other]) => mine.error !== undefined && other.error !== undefined).length;
    const wrong = pairs.find(([mine, other]) => JSON.stringify(mine.ids) !== JSON.stringify(other.ids));
    const said = `${name}: ${pairs.length - refused} prompts are those of transformers${refused > 0 ? ` (${refused} are refused by both)` : ""}`;
    checks.holds(said, wrong === undefined && refused < pairs.length / 2, wrong);
    const other = turns.find(({ written, read }) => !isDeepStrictEqual(written, read));
    // Templates that ignore tools have them told in plain words: their turns are other ones.
    if (format !== "json" || turns.length > 0) {
      const holds = other === undefined && turns.length > 0;
      checks.holds(`${name}: ${turns.length} turns read back by ${format} are themselves`, holds, other);
    }
    if (!name.endsWith("(real)")) recorded[name] = theirs[at].map(({ ids }) => digest(ids));
  });
  if (process.argv.includes("--write")) writeFileSync(fixture, `${JSON.stringify(recorded, null, 1)}\n`);
  else checks.is("the recorded prompts", recorded, JSON.parse(readFileSync(fixture, "utf8")));
  const { passed, failed } = checks.result();
  console.log(`${passed} checks held, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** As in templates.test.ts. */
function digest(ids) {
  return createHash("sha256").update(ids.join(" ")).digest("hex").slice(0, 12);
}

function run(command, args) {
  const done = spawnSync(command, args, { encoding: "utf8" });
  if (done.status !== 0) throw new Error(done.stderr);
}
