// `npm run mutate -- [layer…] [-- stryker's options]`: mutation testing (Stryker) of the SDK by layers, and what came of it file by
// file. A layer is the code that is changed and the tests that should notice. Slow, by hand; results go into docs/reports/mutation.md.
import { spawnSync } from "node:child_process";
import { readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const src = "packages/sdk/src";
const wire = "packages/wire/src";
const filesIn = (path) => [`${path}/**/*.ts`, `!${path}/**/*.test.ts`];
const folder = (name) => filesIn(`${src}/${name}`);
const inClients = (...names) => names.map((name) => `${src}/clients/**/${name}.ts`);
const layers = {
  wire: {
    mutate: [...filesIn(wire), `!${wire}/proto/gen/**`],
    tests: [`${wire}/**/*.test.ts`, "test/integration/parity/*.test.ts"],
  },
  transport: { mutate: folder("transport"), tests: [`${src}/transport/**/*.test.ts`, `${src}/futures/*.test.ts`] },
  futures: {
    mutate: [...folder("futures"), `${src}/clients/training/submission-queue.ts`],
    tests: [`${src}/futures/*.test.ts`, `${src}/clients/training/submission-queue.test.ts`],
  },
  // Sampling by one poll, custom losses, handles, credentials and the clients without a session: what release 0.36 brought.
  "sampling-0.36": {
    mutate: inClients("abandoned-samples", "futures-poller", "sample-dispatch", "sample-parts", "sampler-handle"),
    tests: inClients(
      "futures-poller.test",
      "futures-poller.scripted.test",
      "sample-dispatch.test",
      "sampling-client.test",
      "sample-parts.test",
    ),
  },
  "losses-0.36": {
    mutate: [...inClients("per-datum-loss", "trace-loss", "run-custom-loss"), `${wire}/messages/custom-loss.ts`],
    tests: inClients("per-datum-loss.test", "trace-loss.test", "custom-loss.test"),
  },
  "rest-0.36": {
    mutate: [
      ...inClients("admin-client", "console-urls", "rest-waits", "rest-client"),
      ...[
        "messages/session-search",
        "messages/optimizer",
        "messages/checkpoints",
        "schema/duration",
        "values/provenance",
      ].map((name) => `${wire}/${name}.ts`),
    ],
    tests: [...inClients("rest-client.test", "training-client.test"), `${wire}/**/*.test.ts`],
  },
  "credentials-0.36": {
    mutate: ["stored-key.node", "credentials-file.node", "token", "unsupported", "credential-command.node"].map(
      (name) => `${src}/transport/**/${name}.ts`,
    ),
    tests: [`${src}/transport/**/*.test.ts`, `${src}/clients/session/session.test.ts`],
  },
};

const given = process.argv.slice(2);
const split = given.includes("--") ? given.indexOf("--") : given.length;
const [names, options] = [given.slice(0, split), given.slice(split + 1)];
const unknown = names.filter((name) => !(name in layers));
if (unknown.length > 0) {
  console.error(`no layer named ${unknown.join(", ")}; there are ${Object.keys(layers).join(", ")}`);
  process.exit(2);
}

/** Mutants by what became of them. "Ignored" ones change only what runs at import. */
function counts(mutants) {
  const of = (...statuses) => mutants.filter(({ status }) => statuses.includes(status)).length;
  const noticed = of("Killed", "Timeout");
  return { noticed, all: noticed + of("Survived", "NoCoverage"), ignored: of("Ignored") };
}

function show(name, mutants) {
  const { noticed, all, ignored } = counts(mutants);
  const late = mutants.filter(({ statusReason }) => /timed out/i.test(statusReason ?? "")).length;
  const score = all === 0 ? "-" : `${((100 * noticed) / all).toFixed(1)} %`;
  console.log(`${name}: ${noticed} of ${all} noticed, ${score}; ${late} by a test's time limit; ${ignored} left out`);
}

for (const [name, { mutate, tests }] of Object.entries(layers)) {
  if (names.length > 0 && !names.includes(name)) continue;
  const { status } = spawnSync(
    process.execPath,
    [join(root, "node_modules/.bin/stryker"), "run", "--mutate", mutate.join(","), ...options],
    { cwd: root, stdio: "inherit", env: { ...process.env, MUTATE_TESTS: tests.join(",") } },
  );
  if (status !== 0) process.exit(status ?? 1);
  const report = join(root, "reports/mutation", `${name}.json`);
  renameSync(join(root, "reports/mutation/mutation.json"), report);
  const files = Object.entries(JSON.parse(readFileSync(report, "utf8")).files);
  for (const [file, { mutants }] of files) show(file, mutants);
  show(
    name,
    files.flatMap(([, { mutants }]) => mutants),
  );
}
