/** What workflows may do: actions are pinned by commit, and the permission to sign stands in a job that installs and runs nothing of ours. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const folder = fileURLToPath(new URL("../../.github/workflows", import.meta.url));
const workflows = readdirSync(folder).filter((name) => /\.ya?ml$/.test(name));
const read = (name: string): string => readFileSync(`${folder}/${name}`, "utf8");

/** What fetches packages or runs code of the repository. */
const runsOurs =
  /actions\/checkout|\bgit clone\b|\b(?:npm|pnpm|yarn) (?:ci|i|install|add|run|exec|test)\b|\b(?:npx|pnpx|corepack)\b|\.ci\/run/;

/** A workflow's jobs by name, and what stands before them. */
function parts(text: string): { readonly head: string; readonly jobs: ReadonlyMap<string, string> } {
  const code = text.replace(/^\s*#.*$/gm, "");
  const [head = "", body = ""] = code.split(/^jobs:$/m);
  const found = body.split(/^ {2}(?=[\w-]+:$)/m).slice(1);
  return { head, jobs: new Map(found.map((job) => [job.slice(0, job.indexOf(":")), job])) };
}

function problemsOf(text: string): string[] {
  const { head, jobs } = parts(text);
  const problems: string[] = [];
  if (jobs.size === 0) problems.push("no jobs were found");
  if (!/^permissions:$/m.test(head)) problems.push("the workflow names no permissions");
  const signs = /id-token: write|permissions: write-all/;
  if (signs.test(head)) problems.push("every job may sign");
  for (const [, used = ""] of text.matchAll(/^\s*(?:- )?uses: *(.*)$/gm)) {
    if (!/^(?:\.\/|[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$)/.test(used))
      problems.push(`${used} is not pinned`);
  }
  for (const [name, job] of jobs) {
    const found = runsOurs.exec(job)?.[0];
    if ((signs.test(job) || signs.test(head)) && found !== undefined)
      problems.push(`${name} may sign and has ${found}`);
  }
  return problems;
}

it.each(workflows)("%s is in order", (name) => {
  expect(problemsOf(read(name))).toEqual([]);
});

it("the release publishes what a job without permissions packed and audited", () => {
  const { jobs } = parts(read("release.yml"));
  expect([...jobs.keys()]).toEqual(["pack", "publish"]);
  expect(jobs.get("pack")).not.toMatch(/permissions:|environment:|secrets\./);
  expect(jobs.get("pack")).toMatch(
    /bash \.ci\/run[\s\S]*npm audit signatures[\s\S]*npm run release -- --pack packed[\s\S]*upload-artifact/,
  );
  expect(jobs.get("publish")).toMatch(
    /needs: pack[\s\S]*environment: npm[\s\S]*id-token: write[\s\S]*sha256sum --check[\s\S]*npm publish/,
  );
});

describe("the rules", () => {
  const workflow = (job: string, permissions = "permissions:\n  contents: read\n") =>
    `name: x\non: push\n${permissions}\njobs:\n  first:\n    runs-on: x\n${job}`;
  const sha = "0123456789abcdef0123456789abcdef01234567";
  const signing = "    permissions:\n      id-token: write\n    steps:\n";
  it.each([
    ["a tag", workflow("    steps:\n      - uses: actions/checkout@v4\n"), "actions/checkout@v4 is not pinned"],
    ["a branch", workflow("    steps:\n      - uses: a/b@main # v1.2.3\n"), "a/b@main # v1.2.3 is not pinned"],
    ["a hash without its version", workflow(`    steps:\n      - uses: a/b@${sha}\n`), `a/b@${sha} is not pinned`],
    ["an image", workflow("    steps:\n      - uses: docker://alpine:3\n"), "docker://alpine:3 is not pinned"],
    ["an install beside the permission", workflow(`${signing}      - run: npm ci\n`), "first may sign and has npm ci"],
    ["a global install", workflow(`${signing}      - run: npm install -g npm\n`), "first may sign and has npm install"],
    ["our checks", workflow(`${signing}      - run: bash .ci/run\n`), "first may sign and has .ci/run"],
    ["a script of ours", workflow(`${signing}      - run: npm run release\n`), "first may sign and has npm run"],
    [
      "the repository",
      workflow(`${signing}      - uses: actions/checkout@${sha} # v4.0.0\n`),
      "first may sign and has actions/checkout",
    ],
    ["no permissions", workflow("    steps: []\n", ""), "the workflow names no permissions"],
    ["signing everywhere", workflow("    steps: []\n", "permissions:\n  id-token: write\n"), "every job may sign"],
  ])("refuse %s", (_, text, problem) => {
    expect(problemsOf(text)).toContain(problem);
  });

  it("accept a pinned action and a job that only publishes", () => {
    const text = workflow(
      `${signing}      - uses: a/b@${sha} # v1.2.3\n      - run: npm publish x.tgz --ignore-scripts\n`,
    );
    expect(problemsOf(text)).toEqual([]);
  });
});
