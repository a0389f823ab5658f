// The official command line tool and ours, side by side on one local server: the same rows and the same JSON, and what one tool
// changes the other one sees; and on one loopback Hub: the same repositories. `tinker` comes from PyPI into its own environment;
// ours is built first. Nothing here depends on how fast the machine is.
import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { ensureVenv } from "../venv.mjs";
import { oracles } from "../versions.mjs";

const work = mkdtempSync(join(tmpdir(), "tinklet-cli-interop-"));
const model = join(work, "tiny");
const built = spawnSync(process.execPath, ["tools/build.mjs", "tinklet", "cookbook"], { cwd: root, encoding: "utf8" });
if (built.status !== 0) throw new Error(built.stderr);

const server = spawn(
  process.execPath,
  [await bundle("test/fixtures/programs/serve-main.ts"), JSON.stringify({ tiny: model })],
  {
    stdio: ["ignore", "pipe", "inherit"],
  },
);
const [url] = await once(createInterface({ input: server.stdout }), "line");
const environment = { ...process.env, TINKER_BASE_URL: url, TINKER_API_KEY: "tml-cli", NO_COLOR: "1", COLUMNS: "400" };

let failed = 0;
let compared = 0;
const say = (ok, what, detail = "") => {
  compared += 1;
  if (!ok) failed += 1;
  if (!ok) console.log(`FAILED ${what}\n${detail}`);
};
/** Long enough for Python to start on a machine that has other things to do. */
const patienceMs = 600_000;
const call = ([program, ...first], args, env = {}) =>
  new Promise((resolve) => {
    const options = { env: { ...environment, ...env }, cwd: work, timeout: patienceMs, maxBuffer: 2 ** 26 };
    const child = execFile(program, [...first, ...args], options, (error, stdout, stderr) =>
      resolve({ status: error === null ? 0 : (error.code ?? -1), stdout, stderr }),
    );
    child.stdin.end();
  });

/**
 * Runs both tools until they agree, three times at most: ages ("just now") change between two calls, a real difference stays.
 */
const agree = async (theirs, ours, args, equal) => {
  for (let attempt = 1; ; attempt++) {
    const [a, b] = await Promise.all([call(theirs, args), call(ours, args)]);
    const ok = equal(a, b);
    if (ok || attempt === 3) return { ok, detail: `${a.stdout}${a.stderr}\n--- ours\n${b.stdout}${b.stderr}` };
  }
};

/**
 * What must be equal. Storage grows while one looks, so its amount is left out; fields that the newer tool knows and the server
 * has nothing for are null there and absent from ours.
 */
const comparable = (text) => {
  const keep = (key, value) => (value === null || key === "gigabyte_hours" ? undefined : value);
  return JSON.parse(text, keep);
};
/** Ours also has names of runs (docs/decisions/0023-names.md): everything else must be equal, and they must be there. */
const ownFields = new Set(["name", "run_name", "reference"]);
const withoutNames = (text) => {
  let names = 0;
  const value = JSON.parse(text, (key, field) => {
    if (!ownFields.has(key)) return field;
    if (typeof field === "string" && field !== "") names += 1;
    return undefined;
  });
  return { names, text: JSON.stringify(value) };
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

const { startUploadHub } = await import(await bundle("test/integration/cli/upload-hub.ts"));

try {
  const ours = [process.execPath, join(root, "packages/tinklet/bin/tinklet.mjs")];
  for (const { name, version, packages } of oracles) {
    const python = ensureVenv(name, packages);
    const theirs = [join(python, "..", "tinker")];
    const made = spawnSync(python, [join(root, "test/interop/cli/cli_interop.py"), url, model], { encoding: "utf8" });
    if (made.status !== 0) throw new Error(`${made.stdout}\n${made.stderr}`);
    const { run, weights, sampler } = JSON.parse(made.stdout.trim().split("\n").at(-1));
    const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
    const span = [hour, hour + 7_200_000].map((ms) => new Date(ms).toISOString().replace(".000", ""));

    const same = async (args, { named = true } = {}) => {
      const { ok, detail } = await agree(theirs, ours, ["-f", "json", ...args], (a, b) => {
        if (a.status !== b.status || a.stdout === "" || b.stdout === "") return false;
        const own = withoutNames(b.stdout);
        if (named && own.names === 0) return false;
        return isDeepStrictEqual(comparable(a.stdout), comparable(own.text));
      });
      say(ok, `tinker ${version}: ${args.join(" ")} as JSON`, detail);
    };
    /**
     * @param columnNames our names of columns that the official tool names differently or, where undefined, that ours does not have
     * @param named ours has the run's name in the title and in rows of its own (`Name`)
     */
    const sameTable = async (args, { columnNames = {}, named = false } = {}) => {
      const { ok, detail } = await agree(theirs, ours, args, (a, b) => {
        const [columns = [], ...rows] = richRows(a.stdout);
        const kept = columns.flatMap((column, at) =>
          column in columnNames && columnNames[column] === undefined
            ? []
            : [{ at, ours: columnNames[column] ?? column }],
        );
        // Cells of a column whose contents are names in ours cannot be equal: their number is that of the rows.
        const isCompared = kept.map(({ at, ours: name }) => name === columns[at] || !named);
        const cellsOf = (row, indices) => indices.filter((_, i) => isCompared[i]).map((at) => row[at]);
        const [ourColumns, ...ourRows] = plainRows(
          b.stdout,
          kept.map(({ ours: name }) => name),
        );
        const ownRows = ourRows.filter(([first]) => !(named && first === "Name"));
        const title = a.stdout.trim().split("\n")[0].trim();
        const ourTitle = b.stdout.split("\n")[0].trim();
        const inOrder = (list) => list.map((cells) => JSON.stringify(cells)).sort();
        return (
          rows.length > 0 &&
          isDeepStrictEqual(
            kept.map(({ ours: name }) => name),
            ourColumns,
          ) &&
          isDeepStrictEqual(
            inOrder(
              rows.map((row) =>
                cellsOf(
                  row,
                  kept.map(({ at }) => at),
                ),
              ),
            ),
            inOrder(ownRows.map((row) => cellsOf(row, [...kept.keys()]))),
          ) &&
          (named ? title.split(": ")[0] === ourTitle.split(": ")[0] : title === ourTitle)
        );
      });
      say(ok, `tinker ${version}: ${args.join(" ")} as a table`, detail);
    };
    const both = async () => {
      for (const args of [
        ["run", "list"],
        ["run", "list", "--limit", "0"],
        ["run", "info", run],
        ["checkpoint", "list"],
        ["checkpoint", "list", "--run-id", run],
        ["checkpoint", "info", weights],
        ["checkpoint", "info", sampler],
      ])
        await same(args);
      await same(["billing", "usage", ...span], { named: false });
      await sameTable(["run", "list"], { columnNames: { "Run ID": "Name" }, named: true });
      await sameTable(["run", "list", "-c", "id,owner,checkpoint,checkpoint_time"]);
      await sameTable(["run", "info", run], { named: true });
      await sameTable(["checkpoint", "list", "--run-id", run], {
        columnNames: { "Checkpoint ID": "Checkpoint", Type: "Files", Path: undefined },
        named: true,
      });
      await sameTable(["checkpoint", "info", sampler], { named: true });
    };
    await both();
    // What one changes the other sees.
    const quiet = async (tool, args) => {
      const { status, stdout } = await call(tool, args);
      say(status === 0 && stdout === "", `tinker ${version}: ${args.join(" ")} says nothing`, stdout);
    };
    // Different on purpose: the official tool says nothing, ours names what it changed.
    const told = async (args) => {
      const { status, stdout } = await call(ours, args);
      say(
        status === 0 && stdout.includes(sampler),
        `tinker ${version}: ${args.join(" ")} says what it changed`,
        stdout,
      );
    };
    await told(["checkpoint", "publish", sampler]);
    await quiet(theirs, ["checkpoint", "set-ttl", sampler, "--ttl", "180000"]);
    await both();
    await quiet(theirs, ["checkpoint", "unpublish", sampler]);
    await told(["checkpoint", "set-ttl", sampler, "--remove"]);
    await both();

    const csv = async (tool) => comparableCsv((await call(tool, ["billing", "usage", ...span, "--csv", "-"])).stdout);
    const [theirCsv, ourCsv] = await Promise.all([csv(theirs), csv(ours)]);
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
    const download = async (tool, folder) => {
      const { stdout, stderr } = await call(tool, ["-f", "json", "checkpoint", "download", fetched, "-o", folder]);
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
    const [theirFiles, ourFiles] = [await download(theirs, `t-${version}`), await download(ours, `o-${version}`)];
    say(
      isDeepStrictEqual(theirFiles, ourFiles) && ourFiles.stderr === undefined,
      `tinker ${version}: checkpoint download`,
      JSON.stringify([theirFiles, ourFiles]).slice(0, 1500),
    );
    // The same repository on the Hub: one that the official client filled, one that ours did. Xet, its newer way of storing large
    // files, needs servers of its own; without it the client uses the storage that ours uses.
    const hub = await startUploadHub();
    const hubEnv = { HF_ENDPOINT: hub.endpoint, HF_TOKEN: hub.token, HF_HUB_DISABLE_XET: "1", HF_HUB_OFFLINE: "0" };
    const pushed = [];
    for (const [tool, name] of [
      [theirs, "theirs"],
      [ours, "ours"],
    ]) {
      const args = ["-f", "json", "checkpoint", "push-hf", fetched, "--repo", `${hub.user}/${name}`];
      const { status, stdout, stderr } = await call(tool, args, hubEnv);
      const repo = hub.repos.get(`${hub.user}/${name}`);
      const files = [...(repo?.branches.get("main") ?? [])].toSorted(([x], [y]) => (x < y ? -1 : 1));
      pushed.push({
        status,
        answer: stdout.trim().startsWith("{") ? { ...JSON.parse(stdout), repo_id: "" } : stderr,
        isPrivate: repo?.isPrivate,
        names: files.map(([path]) => path),
        adapter: files.find(([path]) => path === "adapter_model.safetensors")?.[1].toString("base64"),
        config: JSON.parse(files.find(([path]) => path === "adapter_config.json")?.[1].toString() ?? "null"),
        card: /tinker_path: \S+|tinker:\/\/[^\s`]+/
          .exec(files.find(([path]) => path === "README.md")?.[1].toString() ?? "")?.[0]
          .replace("tinker_path: ", ""),
      });
    }
    await hub.close();
    say(
      pushed[0].status === 0 && pushed[0].names.length > 0 && isDeepStrictEqual(pushed[0], pushed[1]),
      `tinker ${version}: checkpoint push-hf`,
      JSON.stringify(pushed).slice(0, 3000),
    );
    const missing = ["-f", "json", "checkpoint", "delete", "-y", `${weights}-none`];
    const deletions = await Promise.all([theirs, ours].map((tool) => call(tool, missing)));
    const counts = deletions.map(({ stdout }) => JSON.parse(stdout).deleted_count);
    say(counts[0] === 0 && counts[1] === 0, `tinker ${version}: deleting what is not there`);
    for (const args of [
      ["run", "info", "nobody"],
      ["checkpoint", "info", "tinker://nobody/weights/x"],
      ["checkpoint", "set-ttl", sampler],
    ]) {
      const [a, b] = await Promise.all([call(theirs, args), call(ours, args)]);
      // Different on purpose: a call without what it needs is a wrong call, and those exit with 2 here.
      const own = args[1] === "set-ttl" ? 2 : 1;
      say(
        a.status === 1 && b.status === own,
        `tinker ${version}: ${args.join(" ")} fails with ${own}, theirs with 1`,
        `${a.stderr}\n--- ours\n${b.stderr}`,
      );
    }
    const wrong = [];
    for (const args of [
      ["run", "info"],
      ["run", "list", "--nope"],
    ]) {
      const ended = await Promise.all([call(theirs, args), call(ours, args)]);
      wrong.push(ended.map(({ status }) => status));
    }
    say(
      isDeepStrictEqual(wrong, [
        [2, 2],
        [2, 2],
      ]),
      `tinker ${version}: wrong calls end with 2`,
      JSON.stringify(wrong),
    );
    const deleted = await call(ours, ["checkpoint", "delete", "--run-id", run, "--type", "weights", "-y"]);
    say(
      deleted.stdout === "Deleted 1 checkpoint(s)\n",
      `tinker ${version}: ours deletes`,
      deleted.stdout + deleted.stderr,
    );
    await same(["checkpoint", "list", "--run-id", run]);
    console.log(`ok     tinker ${version}: ${compared} comparisons so far, ${failed} failed`);
  }
} finally {
  server.kill("SIGTERM");
  await once(server, "exit");
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;
