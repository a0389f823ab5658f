// The official command line tool and ours, side by side on one local server: the same rows and the same JSON, and what one tool
// changes the other one sees. `tinker` comes from PyPI into its own environment; ours is built first.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";
import { bundle, root } from "../server/bundle.mjs";
import { ensureVenv } from "./venv.mjs";
import { oracles } from "./versions.mjs";

const work = mkdtempSync(join(tmpdir(), "tinklet-cli-interop-"));
const model = join(work, "tiny");
const built = spawnSync(process.execPath, ["tools/build.mjs", "tinklet", "cookbook"], { cwd: root, encoding: "utf8" });
if (built.status !== 0) throw new Error(built.stderr);

const server = spawn(process.execPath, [await bundle("test/server/serve-main.ts"), JSON.stringify({ tiny: model })], {
  stdio: ["ignore", "pipe", "inherit"],
});
const [url] = await once(createInterface({ input: server.stdout }), "line");
const environment = { ...process.env, TINKER_BASE_URL: url, TINKER_API_KEY: "tml-cli", NO_COLOR: "1", COLUMNS: "400" };

let failed = 0;
let compared = 0;
const say = (ok, what, detail = "") => {
  compared += 1;
  if (!ok) failed += 1;
  if (!ok) console.log(`FAILED ${what}\n${detail}`);
};
const call = (command, args) => {
  const { status, stdout, stderr } = spawnSync(command[0], [...command.slice(1), ...args], {
    encoding: "utf8",
    env: environment,
    cwd: work,
  });
  return { status, stdout, stderr };
};

/**
 * What must be equal. Storage grows while one looks, so its amount is left out; fields that the newer tool knows and the server
 * has nothing for are null there and absent from ours.
 */
const comparable = (text) => {
  const keep = (key, value) => (value === null || key === "gigabyte_hours" ? undefined : value);
  return JSON.parse(text, keep);
};
const comparableCsv = (text) =>
  text.split("\r\n").map((line) => (line.includes(",storage,") ? line.replace(/[\d.e-]+$/, "") : line));

/** Rows of a table as lists of cells; rich draws boxes, ours has two blanks or more between columns. */
const richRows = (text) =>
  text.split("\n").flatMap((line) =>
    /^[│┃]/.test(line)
      ? [
          line
            .split(/[│┃]/)
            .slice(1, -1)
            .map((cell) => cell.trim()),
        ]
      : [],
  );
const plainRows = (text, columns) => {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const header = lines.find((line) => line.startsWith(columns[0]));
  if (header === undefined) return [];
  const starts = columns.map((column) => header.indexOf(column));
  const cells = (line) => starts.map((start, at) => line.slice(start, starts[at + 1]).trim());
  return lines.slice(lines.indexOf(header)).map(cells);
};

try {
  const ours = [process.execPath, join(root, "packages/tinklet/bin/tinklet.mjs")];
  for (const { name, version, packages } of oracles) {
    const python = ensureVenv(name, packages);
    const theirs = [join(python, "..", "tinker")];
    const made = spawnSync(python, [join(root, "test/python/cli_interop.py"), url, model], { encoding: "utf8" });
    if (made.status !== 0) throw new Error(`${made.stdout}\n${made.stderr}`);
    const { run, weights, sampler } = JSON.parse(made.stdout.trim().split("\n").at(-1));
    const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
    const span = [hour, hour + 7_200_000].map((ms) => new Date(ms).toISOString().replace(".000", ""));

    const same = (args) => {
      const [a, b] = [call(theirs, ["-f", "json", ...args]), call(ours, ["-f", "json", ...args])];
      const equal =
        a.status === b.status && a.stdout !== "" && isDeepStrictEqual(comparable(a.stdout), comparable(b.stdout));
      say(
        equal,
        `tinker ${version}: ${args.join(" ")} as JSON`,
        `${a.stdout}${a.stderr}\n--- ours\n${b.stdout}${b.stderr}`,
      );
    };
    const sameTable = (args) => {
      const [a, b] = [call(theirs, args), call(ours, args)];
      const [columns = [], ...rows] = richRows(a.stdout);
      const [ourColumns, ...ourRows] = plainRows(b.stdout, columns);
      const title = a.stdout.trim().split("\n")[0].trim();
      const equal = isDeepStrictEqual([columns, rows, title], [ourColumns, ourRows, b.stdout.split("\n")[0].trim()]);
      say(
        equal && rows.length > 0,
        `tinker ${version}: ${args.join(" ")} as a table`,
        `${a.stdout}${a.stderr}\n--- ours\n${b.stdout}${b.stderr}`,
      );
    };
    const both = () => {
      for (const args of [
        ["run", "list"],
        ["run", "list", "--limit", "0"],
        ["run", "info", run],
        ["checkpoint", "list"],
      ])
        same(args);
      for (const args of [
        ["checkpoint", "list", "--run-id", run],
        ["checkpoint", "info", weights],
        ["checkpoint", "info", sampler],
      ])
        same(args);
      same(["billing", "usage", ...span]);
      sameTable(["run", "list"]);
      sameTable(["run", "list", "-c", "id,owner,checkpoint,checkpoint_time"]);
      sameTable(["run", "info", run]);
      sameTable(["checkpoint", "list", "--run-id", run]);
      sameTable(["checkpoint", "info", sampler]);
    };
    both();
    // What one changes the other sees.
    const quiet = (tool, args) => {
      const { status, stdout } = call(tool, args);
      say(status === 0 && stdout === "", `tinker ${version}: ${args.join(" ")} says nothing`, stdout);
    };
    quiet(ours, ["checkpoint", "publish", sampler]);
    quiet(theirs, ["checkpoint", "set-ttl", sampler, "--ttl", "180000"]);
    both();
    quiet(theirs, ["checkpoint", "unpublish", sampler]);
    quiet(ours, ["checkpoint", "set-ttl", sampler, "--remove"]);
    both();

    const csv = (tool) => comparableCsv(call(tool, ["billing", "usage", ...span, "--csv", "-"]).stdout);
    const [theirCsv, ourCsv] = [csv(theirs), csv(ours)];
    // Newer releases have columns of their own, which are empty here.
    if (version === "0.25.0") {
      say(
        isDeepStrictEqual(theirCsv, ourCsv),
        `tinker ${version}: billing usage as CSV`,
        `${theirCsv.join(" | ")} --- ours ${ourCsv.join(" | ")}`,
      );
    }
    // Newer releases refuse by themselves to download what was saved for sampling.
    const fetched = version === "0.25.0" ? sampler : weights;
    const download = (tool, folder) => {
      const { stdout, stderr } = call(tool, ["-f", "json", "checkpoint", "download", fetched, "-o", folder]);
      if (stdout === "") return { stderr };
      const { destination, checkpoint_path } = JSON.parse(stdout);
      const at = join(work, destination);
      const names = readdirSync(at).toSorted();
      return {
        checkpoint_path,
        names,
        adapter: readFileSync(join(at, "adapter_model.safetensors")).toString("base64"),
      };
    };
    const [theirFiles, ourFiles] = [download(theirs, `t-${version}`), download(ours, `o-${version}`)];
    say(
      isDeepStrictEqual(theirFiles, ourFiles) && ourFiles.stderr === undefined,
      `tinker ${version}: checkpoint download`,
      JSON.stringify([theirFiles, ourFiles]).slice(0, 1500),
    );
    const missing = ["-f", "json", "checkpoint", "delete", "-y", `${weights}-none`];
    const counts = [theirs, ours].map((tool) => JSON.parse(call(tool, missing).stdout).deleted_count);
    say(counts[0] === 0 && counts[1] === 0, `tinker ${version}: deleting what is not there`);
    for (const args of [
      ["run", "info", "nobody"],
      ["checkpoint", "info", "tinker://nobody/weights/x"],
      ["checkpoint", "set-ttl", sampler],
    ]) {
      const [a, b] = [call(theirs, args), call(ours, args)];
      say(
        a.status === 1 && b.status === 1,
        `tinker ${version}: ${args.join(" ")} fails with 1`,
        `${a.stderr}\n--- ours\n${b.stderr}`,
      );
    }
    const wrong = [
      ["run", "info"],
      ["run", "list", "--nope"],
    ].map((args) => [call(theirs, args).status, call(ours, args).status]);
    say(
      isDeepStrictEqual(wrong, [
        [2, 2],
        [2, 2],
      ]),
      `tinker ${version}: wrong calls end with 2`,
      JSON.stringify(wrong),
    );
    const deleted = call(ours, ["checkpoint", "delete", "--run-id", run, "--type", "weights", "-y"]);
    say(
      deleted.stdout === "Deleted 1 checkpoint(s)\n",
      `tinker ${version}: ours deletes`,
      deleted.stdout + deleted.stderr,
    );
    same(["checkpoint", "list", "--run-id", run]);
    console.log(`ok     tinker ${version}: ${compared} comparisons so far, ${failed} failed`);
  }
} finally {
  server.kill("SIGTERM");
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;
