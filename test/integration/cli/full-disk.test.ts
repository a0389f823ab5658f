// A disk that is really full: a small file system of memory in a mount namespace of the test's own. Every command that writes
// says so, leaves nothing half done, and goes on when there is room again.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { baseModel, Executable, fakeServer, tokenizer } from "./executable.ts";

vi.setConfig({ testTimeout: 120_000 }); // many processes: a busy machine is no failure

const canMount =
  spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"], { stdio: "ignore" })
    .status === 0;

let tool: Executable;
let server: Awaited<ReturnType<typeof fakeServer>>;
let env: Record<string, string>;

beforeAll(async () => {
  [tool, server] = await Promise.all([Executable.build(), fakeServer()]);
  env = { TINKER_BASE_URL: server.url, TINKER_API_KEY: "tml-test" };
  const lines = Array.from({ length: 40 }, (_, at) => `{"prompt":"Count ${at}:","completion":" ${at}"}\n`);
  writeFileSync(join(tool.work, "data.jsonl"), lines.join(""));
  mkdirSync(join(tool.work, "disk"));
}, 60_000);
afterAll(async () => {
  await server?.close();
  tool?.remove();
});

const train = (folder: string) => {
  const model = ["--model", baseModel, "--tokenizer", tokenizer, "--rank", "4", "--learning-rate", "0.01"];
  const steps = ["--batch-size", "1", "--save-every", "4", "--no-export", "--quiet"];
  return ["train", "data.jsonl", "--out", folder, ...model, ...steps];
};

/** Runs a script in which `disk` is a file system of that many kilobytes. */
async function onSmallDisk(kilobytes: number, script: string): Promise<string> {
  const { spawn } = await import("node:child_process");
  const mount = `mount -t tmpfs -o size=${kilobytes}k,nr_inodes=64 tmpfs disk`;
  const child = spawn("unshare", ["-rm", "bash", "-c", `${mount} || exit 99\n${script}`], {
    env: tool.environment(env),
    cwd: tool.work,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
  }
  await new Promise((resolve) => child.on("close", resolve));
  return text;
}

describe.runIf(canMount)("a full disk", () => {
  it("train stops with a reason, and goes on to the same metrics when there is room", async () => {
    const said = await onSmallDisk(
      64,
      `head -c 44K /dev/zero > disk/ballast
       ${tool.command(train("disk/run"))}; echo "code $?"
       ls disk/run; tail -c 1 disk/run/metrics.jsonl | od -An -c; tail -c 1 disk/run/checkpoints.jsonl | od -An -c
       rm disk/ballast; mv disk/run roomy
       ${tool.command(train("roomy"))} > /dev/null; echo "then $?"`,
    );
    expect(said).toMatch(/Error: The disk is full: disk\/run\/\S+ could not be written\.\nHint: Free some space/);
    expect(said).toContain("code 1");
    expect(said).not.toContain("    at ");
    expect(said).not.toMatch(/\.new/);
    expect(said.match(/\\n/g)?.length, said).toBeGreaterThanOrEqual(1); // no line was left half written
    expect(said).toContain("then 0");
    const straight = await tool.run(train("straight"), { env });
    expect(straight.code, straight.stderr).toBe(0);
    const metrics = (folder: string) => readFileSync(join(tool.work, folder, "metrics.jsonl"), "utf8");
    expect(metrics("roomy")).toBe(metrics("straight"));
  });

  it("checkpoint download leaves nothing behind, and works when there is room", async () => {
    await tool.run(train("source"), { env });
    const download = tool.command(["checkpoint", "download", "source", "-o", "disk"]);
    const said = await onSmallDisk(
      8,
      `${download}; echo "code $?"; echo "left: $(ls -A disk)"
       mount -o remount,size=4M disk; ${download} > /dev/null; echo "then $?"`,
    );
    expect(said).toMatch(/Error: The disk is full: \S+ could not be written\.\nHint: Free some space/);
    expect(said).toContain("code 1\nleft: \n");
    expect(said).toContain("then 0");
  });

  it("plot and inspect leave the file that was there", async () => {
    await tool.run(train("plotted"), { env });
    const plot = tool.command(["plot", "plotted", "--out", "disk/loss.svg"]);
    const inspect = tool.command([
      "inspect",
      "data.jsonl",
      "--model",
      baseModel,
      "--tokenizer",
      tokenizer,
      "-o",
      "disk/i.html",
    ]);
    const said = await onSmallDisk(
      12,
      `echo old > disk/loss.svg; head -c 100K /dev/zero > disk/ballast 2> /dev/null
       ${plot}; echo "plot $?"; ${inspect}; echo "inspect $?"; ls disk; cat disk/loss.svg`,
    );
    expect(said).toMatch(/The disk is full: disk\/loss\.svg could not be written\.[\s\S]*plot 1\n/);
    expect(said).toMatch(/The disk is full: disk\/i\.html could not be written\.[\s\S]*inspect 1\n/);
    expect(said).toMatch(/inspect 1\nballast\nloss\.svg\nold\n$/);
  });
});
