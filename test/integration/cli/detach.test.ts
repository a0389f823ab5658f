// `serve --detach`, `status` and `stop` through the real executable: one server, a killed one, one that cannot start, and records of others.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Executable } from "./executable.ts";

vi.setConfig({ testTimeout: 120_000 });
let tool: Executable;
const pids = new Set<number>();
beforeAll(async () => {
  tool = await Executable.build({ server: true });
}, 60_000);
afterAll(() => {
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // stopped, as it should be
    }
  }
  tool?.remove();
});

const folder = (name: string) => ["--data-dir", join(tool.work, name)];
const json = async (...args: string[]) => {
  const { code, stdout, stderr } = await tool.run([...args, "--json"]);
  expect(stdout, stderr).not.toBe("");
  return { code, ...JSON.parse(stdout) };
};
async function detach(name: string, ...more: string[]): Promise<{ pid: number; url: string }> {
  const started = await json("serve", "--detach", "--port", "0", ...folder(name), ...more);
  expect(started).toMatchObject({
    code: 0,
    state: "running",
    url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
  });
  pids.add(started.pid);
  return started;
}

it("starts once, is used by --local, shows its state, and stops; the next start works", async () => {
  const { pid, url } = await detach("one");
  expect(await detach("one")).toMatchObject({ pid, url }); // it runs already
  expect(await json("status", ...folder("one"))).toMatchObject({ code: 0, state: "running", pid, url });
  const shown = await tool.run(["status", ...folder("one")]);
  expect(shown.stdout).toMatch(new RegExp(`tinklet serve runs[\\s\\S]*Address +${url}[\\s\\S]*Process +${pid}`));
  const listed = await tool.run(["model", "list", "--local", ...folder("one")]);
  expect(listed).toMatchObject({ code: 0, stderr: expect.stringContaining(`Using tinklet serve at ${url}`) });
  expect(readFileSync(join(tool.work, "one", "serve.log"), "utf8")).toContain("server.started");
  // Two at once: the server gets both signals, and ends in order. One that comes later waits for the end.
  const stops = await Promise.all([json("stop", ...folder("one")), json("stop", ...folder("one"))]);
  expect(stops.map(({ code, state }) => [code, state])).toEqual([
    [0, "stopped"],
    [0, "stopped"],
  ]);
  expect(stops.map((one) => one.stopped_pid)).toContain(pid);
  expect(readFileSync(join(tool.work, "one", "serve.log"), "utf8")).toContain("server.closed");
  expect(existsSync(join(tool.work, "one", "server.json"))).toBe(false);
  expect(await json("status", ...folder("one"))).toMatchObject({ code: 1, state: "none" });
  expect(await json("stop", ...folder("one"))).toMatchObject({ code: 0, stopped_pid: null });
});

it("a killed server is named, and the next one starts on its folder", async () => {
  const { pid } = await detach("killed");
  process.kill(pid, "SIGKILL");
  // The signal is delivered in a moment.
  const ended = { code: 1, state: "ended", pid, program: "tinklet serve" };
  const poll = { timeout: 20_000, interval: 100 };
  await vi.waitFor(async () => expect(await json("status", ...folder("killed"))).toMatchObject(ended), poll);
  expect((await tool.run(["status", ...folder("killed")])).stdout).toMatch(/ended without stopping/);
  expect(await json("stop", ...folder("killed"))).toMatchObject({ code: 0, stopped_pid: null });
  const next = await detach("killed");
  expect(next.pid).not.toBe(pid);
  expect(existsSync(join(tool.work, "killed", "serve.log.1"))).toBe(true);
  await json("stop", ...folder("killed"));
});

it("a server that cannot start says why, with exit code 1", async () => {
  const { url } = await detach("taken");
  const port = new URL(url).port;
  const other = await tool.run(["serve", "--detach", "--port", port, ...folder("other")]);
  expect(other).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/The server did not start\. Port \d+ of 127\.0\.0\.1 is in use/),
  });
  expect(readdirSync(join(tool.work, "other")).filter((name) => name.startsWith("serve."))).toEqual([
    "serve.log.failed",
  ]);
  const memory = await tool.run(["serve", "--detach", "--data-dir", "memory"]);
  expect(memory).toMatchObject({ code: 2, stderr: expect.stringContaining("--detach needs a data folder") });
  await json("stop", ...folder("taken"));
});

it("stop leaves alone what has not proved to be a tinklet serve of this user", async () => {
  const write = (name: string, record: object | string, mode = 0o600) => {
    const file = join(tool.work, name, "server.json");
    mkdirSync(join(tool.work, name), { recursive: true });
    writeFileSync(file, typeof record === "string" ? record : JSON.stringify(record), { mode });
    chmodSync(file, mode);
  };
  const own = { pid: process.pid, program: "tinklet train", release: "0.1.0" };
  const secret = `tml-local-${"x".repeat(32)}`;
  const attach = { url: "http://127.0.0.1:9", secret, models: [], strict: false, studio: false };
  write("embedded", own);
  write("silent", { ...own, program: "tinklet serve", attach });
  write("public", own, 0o644);
  write("torn", '{"pid":');
  write("newer", { ...own, pid: 2 ** 22 + 1, release: "9.9.9", attach });
  for (const [name, message] of [
    ["embedded", /tinklet train \(process \d+\) uses the data folder, with a server inside/],
    ["silent", /is recorded as tinklet serve and does not answer/],
    ...(process.getuid === undefined
      ? []
      : [["public", /belongs to another user, or its record can be read by others/] as const]),
  ] as const) {
    expect(await json("status", ...folder(name)), name).toMatchObject({ code: 1 });
    expect(await tool.run(["stop", "--timeout", "0", ...folder(name)]), name).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(message),
    });
  }
  for (const name of ["torn", "newer"])
    expect(await json("stop", ...folder(name)), name).toMatchObject({ code: 0, stopped_pid: null });
  expect(await json("status", ...folder("newer"))).toMatchObject({ state: "ended" });
});
