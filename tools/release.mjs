// `npm run release -- --dry-run`: everything a release needs, checked, and the commands it would run, printed. Without --dry-run, in the
// release workflow on a clean checkout of the version's tag, the packages are published with provenance.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkFiles, pack, packageSources, workspacePackages } from "./pack.mjs";
import {
  changelogEntry,
  constantProblems,
  provenanceProblems,
  publishOrder,
  versionProblems,
} from "./release-plan.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const dryRun = process.argv.includes("--dry-run");
const unknown = process.argv.slice(2).filter((option) => option !== "--dry-run");
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

if (unknown.length > 0) {
  console.error(`unknown option ${unknown.join(", ")}; there is --dry-run`);
  process.exit(2);
}
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
  const signed = process.env.ACTIONS_ID_TOKEN_REQUEST_URL !== undefined;
  needForReal(
    signed,
    "the workflow can sign",
    "publish from the release workflow: provenance is signed by its identity",
  );

  for (const { name } of publishOrder(manifests)) {
    const args = ["publish", packages.get(name).tarball, "--provenance", "--access", "public"];
    if (dryRun) console.log(`would npm ${args.join(" ")}`);
    else if (failed === 0) execFileSync("npm", args, { cwd: root, stdio: "inherit" });
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;
