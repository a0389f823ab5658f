// `npm run release -- --dry-run`: everything a release needs, checked, and the commands it would run, printed. With `--pack FOLDER`, in the
// release workflow on a clean checkout of the version's tag, the tarballs are written into a new folder, with SHA256SUMS, whose order is
// that of publishing. Another job publishes them: the permission to sign is no business of one that runs the development dependencies.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { checkFiles, pack, packageSources, workspacePackages } from "./pack.mjs";
import {
  changelogEntry,
  constantProblems,
  provenanceProblems,
  publishOrder,
  versionProblems,
} from "./release-plan.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const usage = (problem) => {
  console.error(`${problem}usage: npm run release -- --dry-run | --pack FOLDER`);
  process.exit(2);
};
const readOptions = () => {
  try {
    return parseArgs({ options: { "dry-run": { type: "boolean" }, pack: { type: "string" } } }).values;
  } catch (error) {
    return usage(`${error.message}\n`);
  }
};
const { "dry-run": dryRun = false, pack: folder } = readOptions();
if (dryRun === (folder !== undefined)) usage("");
const git = (...args) => execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();
let failed = 0;
const tell = (problems, done) => {
  for (const problem of problems) console.log(`FAIL  ${problem}`);
  failed += problems.length;
  if (problems.length === 0) console.log(`ok    ${done}`);
};
/** What only a real release needs: a failure there, a note in a dry run. */
const needForReal = (holds, done, problem) => {
  if (holds) console.log(`ok    ${done}`);
  else if (dryRun) console.log(`later ${problem}`);
  else tell([problem], done);
};

const manifests = workspacePackages().map(({ manifest }) => manifest);
const { version } = manifests[0];
const work = mkdtempSync(join(tmpdir(), "tinklet-release-"));
try {
  tell(versionProblems(manifests), `${manifests.length} packages at ${version}, and each asks for the others at it`);
  tell(constantProblems(packageSources(), version), "constants in the sources say the same version");
  let entry = { date: undefined };
  try {
    entry = changelogEntry(readFileSync(join(root, "CHANGELOG.md"), "utf8"), version);
    tell([], `CHANGELOG.md has an entry for ${version}`);
  } catch (error) {
    tell([error.message]);
  }
  needForReal(entry.date !== undefined, `released on ${entry.date}`, `CHANGELOG.md: set the date of ${version}`);
  tell(provenanceProblems(manifests), "public, with provenance");

  const packages = await pack(work);
  for (const [name, packed] of packages) {
    try {
      checkFiles(packed);
      tell([], `${name}: ${packed.files.length} files, ${Math.round(packed.unpackedSize / 1024)} kB`);
    } catch (error) {
      tell([error.message]);
    }
  }

  const status = git("status", "--porcelain");
  needForReal(status === "", "the tree is clean", `the tree is not clean:\n${status}`);
  const tags = git("tag", "--points-at", "HEAD").split("\n");
  needForReal(
    tags.includes(`v${version}`),
    `HEAD is v${version}`,
    `git tag v${version} && git push origin v${version}`,
  );
  const repository = manifests.every(({ repository: named }) => named !== undefined);
  needForReal(
    repository,
    "every package names its repository",
    "name the repository in every package.json (npm compares it with the provenance)",
  );

  const order = publishOrder(manifests).map(({ name }) => packages.get(name).tarball);
  if (dryRun) for (const tarball of order) console.log(`would npm publish ${tarball} --provenance --access public`);
  else if (failed === 0) {
    const target = resolve(folder);
    mkdirSync(target); // refuses one that is there: it might hold tarballs of something else
    const sums = order.map((tarball) => {
      copyFileSync(tarball, join(target, basename(tarball)));
      return `${createHash("sha256").update(readFileSync(tarball)).digest("hex")}  ${basename(tarball)}\n`;
    });
    writeFileSync(join(target, "SHA256SUMS"), sums.join(""));
    console.log(`packed ${order.length} packages into ${target}`);
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;
