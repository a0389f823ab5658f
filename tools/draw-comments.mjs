// `node tools/draw-comments.mjs [SEED] [REVISION]`: sixty comments and error messages of the packages, drawn by a seeded random choice, to
// be read by somebody who did not write them. Tests, helpers of tests and generated files are left out.
import { execFileSync } from "node:child_process";

const [seed = "1", revision = "HEAD"] = process.argv.slice(2);
const git = (...args) => execFileSync("git", args, { encoding: "utf8", maxBuffer: 2 ** 28 });
const files = git("ls-tree", "-r", "--name-only", revision, "packages")
  .split("\n")
  .filter((file) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(file) && !/\.test|\/gen\/|\/testing\//.test(file));
const comment = /\/\*\*[\s\S]*?\*\/|(?<!:)\/\/ .*|(?:new \w*Error|badField|unsupported|Refusal)\([^;]{10,300}?\)/g;
const found = files.flatMap((file) =>
  [...git("show", `${revision}:${file}`).matchAll(comment)].map(([text]) => ({
    file: file.replace(/^packages\//, "").replace("/src/", "/"),
    text: text.replace(/\s+(\* )?/g, " ").slice(0, 330),
  })),
);
let state = Number(seed) >>> 0;
const random = () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
};
console.log(`${found.length} comments and messages in ${files.length} files of ${revision}, seed ${seed}\n`);
for (let i = 1; i <= 60; i++) {
  const { file, text } = found[Math.floor(random() * found.length)];
  console.log(`${i}. \`${file}\`: ${text}`);
}
