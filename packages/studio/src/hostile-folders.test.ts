/** Malicious run folders: other requests are answered meanwhile, memory is released, and no file outside the folder is read. */
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, open, realpath, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { GrowingFile, GrowingLines, lastRows, RowPage } from "./growing-lines.ts";
import { openPlainFile } from "./plain-file.ts";
import { runFolders } from "./run-folders.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const heldMb = () => {
  collect();
  return process.memoryUsage().heapUsed / 1e6;
};

let root: string;
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "studio-")));
  return () => rm(root, { recursive: true, force: true });
});

/** The longest event loop delay in milliseconds while `work` ran. */
async function longestWait(work: () => Promise<unknown>): Promise<number> {
  let [longest, last, isOver] = [0, performance.now(), false];
  const watch = () => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
    if (!isOver) setImmediate(watch);
  };
  watch();
  await work();
  isOver = true;
  watch();
  return longest;
}

describe("lines", () => {
  test("parsing white space and partial numbers is linear in the line's length", async () => {
    const file = join(root, "metrics.jsonl");
    // quadratic parsing of 400,000 spaces takes a hundred seconds
    const [blanks, signs] = [" ".repeat(400_000), "-".repeat(400_000)];
    await writeFile(
      file,
      `{"a":${blanks}NaN${blanks}}\n{"b":${blanks}x, NaN}\n{"c":"${signs}",${signs}\n{"d":-Infinity}\n`,
    );
    const lines = new GrowingLines(file);
    const waited = await longestWait(async () => {
      expect(await lines.read()).toEqual([{ a: null }, { d: null }]);
    });
    expect(waited).toBeLessThan(5000);
  }, 300_000);

  test("NaN and Infinity inside strings are unchanged", async () => {
    const file = join(root, "metrics.jsonl");
    await writeFile(
      file,
      '{"text":"a \\\\\\", NaN, [Infinity]","x":NaN,"y":[-Infinity,Infinity]}\n{"a":NaNa}\n{"b":"NaN\n',
    );
    expect(await new GrowingLines(file).read()).toEqual([{ text: 'a \\", NaN, [Infinity]', x: null, y: [null, null] }]);
  });

  test("a file with one very long line is read once, is not stored, and the next line is read", async () => {
    const file = join(root, "metrics.jsonl");
    const size = 128 * 1024 * 1024;
    const handle = await open(file, "w");
    await handle.truncate(size); // sparse
    await handle.write('\n{"step":1}\n', size);
    await handle.close();
    const concat = vi.spyOn(Buffer, "concat");
    onTestFinished(() => concat.mockRestore());
    expect(await new GrowingLines(file).read()).toEqual([{ step: 1 }]);
    const copied = concat.mock.results.reduce((sum, { value }) => sum + (value as Buffer).length, 0);
    expect(copied).toBeLessThan(size);
  });

  test("millions of rows are not stored, and do not block the event loop", async () => {
    const path = join(root, "run");
    await mkdir(path);
    await writeFile(join(path, "metrics.jsonl"), '{"step":0}\n');
    const rows = Buffer.alloc(48 * 1024 * 1024, "{}\n");
    for (const name of ["checkpoints", "timing_spans", "x_rollouts"])
      await writeFile(join(path, `${name}.jsonl`), rows);
    const folders = await runFolders([root]);
    const { id } = (await folders.list())[0]!;
    const before = heldMb();
    let turns = 0;
    const timer = setInterval(() => turns++, 0);
    const read = (await folders.read(id, 0))!;
    const page = (await folders.rollouts(id, "x_rollouts.jsonl", { offset: 10, limit: 5 }))!;
    clearInterval(timer);
    expect([read.checkpoints.length, read.timing.length, page.rows.length]).toEqual([10_000, 200, 5]);
    expect(page.total).toBe(1_000_000);
    expect(turns).toBeGreaterThan(10);
    expect(heldMb() - before).toBeLessThan(50); // without the bounds it is 1,500
  }, 120_000);

  test("pages and last rows are also bounded by bytes", async () => {
    const file = join(root, "rows.jsonl");
    const text = "x".repeat(1000);
    await writeFile(file, Array.from({ length: 100 }, (_, row) => `${JSON.stringify({ row, text })}\n`).join(""));
    const page = await new GrowingFile(file, new RowPage(10, { maxRows: 50, maxBytes: 5200 })).read();
    expect([page.rows.map(({ row }) => row), page.total]).toEqual([[10, 11, 12, 13, 14], 100]);
    const last = await lastRows(file, { maxRows: 200, maxBytes: 3500 });
    expect(last.map(({ row }) => row)).toEqual([97, 98, 99]);
    expect((await lastRows(file, { maxRows: 2, maxBytes: 10_000_000 })).map(({ row }) => row)).toEqual([98, 99]);
  });
});

describe("links", () => {
  /** A run folder, and a folder outside it with the same files and a secret in each. */
  const folderAndSecret = async () => {
    const [run, secret] = [join(root, "runs", "a"), join(root, "secret")];
    for (const [path, value] of [
      [run, "own"],
      [secret, "secret"],
    ] as const) {
      await mkdir(join(path, "iteration_000001"), { recursive: true });
      const row = `{"name":"${value}","step":1,"${value}":1}\n`;
      for (const name of ["metrics", "checkpoints", "timing_spans", "train_data"])
        await writeFile(join(path, `${name}.jsonl`), row);
      await writeFile(join(path, "config.json"), row);
      await writeFile(join(path, "iteration_000001", "train_rollout_summaries.jsonl"), row);
      await writeFile(
        join(path, "iteration_000001", "train_logtree.json"),
        `{"root":{"tag":"p","children":["${value}"]}}`,
      );
    }
    return { run, secret, folders: await runFolders([join(root, "runs")]) };
  };
  const rollouts = "iteration_000001/train_rollout_summaries.jsonl";
  const page = { offset: 0, limit: 5 };
  /** All responses about the folder. */
  const shown = async (folders: Awaited<ReturnType<typeof runFolders>>, id: string): Promise<string> =>
    JSON.stringify([
      await folders.list(),
      await folders.read(id, 0),
      await folders.rollouts(id, rollouts, page),
      await folders.rollouts(id, "train_data.jsonl", page),
    ]);

  test.each([
    "metrics.jsonl",
    "checkpoints.jsonl",
    "timing_spans.jsonl",
    "train_data.jsonl",
    "config.json",
    rollouts,
    "iteration_000001/train_logtree.json",
    "iteration_000001",
    ".",
  ])("in the place of %s is not followed, though the folder was shown before", async (name) => {
    const { run, secret, folders } = await folderAndSecret();
    const { id } = (await folders.list())[0]!;
    expect(await shown(folders, id)).toContain("own");
    const place = join(run, name);
    await rename(place, join(root, "moved"));
    await symlink(join(secret, name), place);
    expect(await folders.read(id, 0).then(JSON.stringify)).not.toContain("secret");
    expect(await shown(folders, id)).not.toContain("secret");
  });

  test("that replace a folder while a file is being opened are not followed", async () => {
    const { run, secret } = await folderAndSecret();
    const file = join(run, "config.json");
    await rename(run, join(root, "moved"));
    await symlink(secret, run);
    const opened = await openPlainFile(file, async () => {
      await unlink(run);
      await rename(join(root, "moved"), run);
    });
    expect(opened).toBeUndefined();
    const plain = await openPlainFile(file);
    expect(await plain?.readFile("utf8")).toContain("own");
    await plain?.close();
  });

  test.skipIf(process.platform === "win32")("a pipe is no file, and is not waited for", async () => {
    const pipe = join(root, "metrics.jsonl");
    execFileSync("mkfifo", [pipe]);
    expect(await openPlainFile(pipe)).toBeUndefined();
    expect(await new GrowingLines(pipe).read()).toEqual([]);
  });
});
