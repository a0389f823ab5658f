// While `tinklet serve` runs, every command with --local uses it: each says so, each works, and the engine's thread is in one process alone.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { chatExport, randomTraceId } from "../../../packages/server/src/testing/trace-exports.ts";
import { commandTable } from "../../../packages/tinklet/src/cli/commands.ts";
import { Executable } from "../../integration/cli/executable.ts";

const traceId = randomTraceId();
const preload = pathToFileURL(fileURLToPath(new URL("./worker-log.mjs", import.meta.url))).href;
let tool: Executable;
let workers: string;
let server: { pid: number; url: string };
const run = (args: readonly string[], stdin?: string) =>
  tool.run(args, {
    env: { NODE_OPTIONS: `--import ${preload}`, WORKER_LOG: workers },
    ...(stdin === undefined ? {} : { stdin }),
  });
const data = () => ["--data-dir", join(tool.work, "data")];

beforeAll(async () => {
  tool = await Executable.build({ server: true });
  workers = join(tool.work, "workers");
  const lines = Array.from({ length: 8 }, (_, at) => `{"prompt":"Count ${at}:","completion":" ${at}"}\n`);
  writeFileSync(join(tool.work, "data.jsonl"), lines.join(""));
  const { code, stdout, stderr } = await run(["serve", "--detach", "--port", "0", "--json", ...data()]);
  expect(code, stderr).toBe(0);
  server = JSON.parse(stdout);
  const at = Math.floor(Date.now() / 1000);
  const body = JSON.stringify(chatExport([{ traceId, prompt: "Where is it?", at }]));
  const sent = await fetch(`${server.url}/v1/traces`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  expect([sent.status, await sent.json()]).toEqual([200, {}]);
}, 120_000);
afterAll(async () => {
  if (server !== undefined) await tool.run(["stop", ...data()]);
  tool?.remove();
});

const few = ["--max-tokens", "4", "--seed", "1"];
const hours = [0, 1].map((add) => `${new Date(Date.now() + add * 3_600_000).toISOString().slice(0, 13)}:00:00Z`);

/** Commands that use a server, in an order in which each finds what it needs; the session's id is known after the first ones. */
const rows: readonly (readonly [words: string, args: (session: string) => readonly string[]])[] = [
  [
    "train",
    () => [
      "data.jsonl",
      "--learning-rate",
      "0.01",
      "--max-steps",
      "2",
      "--batch-size",
      "4",
      "--name",
      "bike",
      "--out",
      "t",
    ],
  ],
  ["quickstart", () => ["--steps", "2", "--out", "q"]],
  ["recipe run", () => ["sft", "--max-steps", "1", "--out", "r"]],
  ["doctor", () => ["--skip-training"]], // its training step tests this machine, in memory, whatever runs

  ["sample", () => ["Hi", "--from", "bike", ...few]],
  ["chat", () => ["--from", "bike", ...few]],
  ["eval", () => ["data.jsonl", "--from", "bike", "--base", "--max-tokens", "4", "--out", "e"]],
  ["model list", () => []],
  ["run list", () => []],
  ["run info", () => ["bike"]],
  ["checkpoint list", () => []],
  ["checkpoint info", () => ["bike"]],
  ["checkpoint publish", () => ["bike"]],
  ["checkpoint unpublish", () => ["bike"]],
  ["checkpoint set-ttl", () => ["bike", "--ttl", "90000"]],
  ["checkpoint download", () => ["bike", "-o", "got"]],
  ["export", () => ["bike", "--format", "peft", "--out", "exported"]],
  ["session list", () => []],
  ["session info", (session) => [session]],
  ["session export-trace", (session) => [session, "-o", "it.pftrace"]],
  ["billing usage", () => hours],
  ["billing checkpoint-storage", () => []],
  ["billing storage", () => ["--explain"]],
  ["traces list", () => []],
  ["traces show", () => [traceId]],
  ["traces rate", () => [traceId, "--up"]],
  ["traces export", () => ["-o", "traces.jsonl"]],
  ["traces delete", () => [traceId, "-y"]],
  ["run delete", () => ["bike", "-y"]],
];
/** Commands that need no server or are about servers, and two that ask another service. */
const alone =
  /^(serve|status|stop|studio|inspect|plot|recipe (list|copy)|data.*|auth .*|completions|version|help|conformance|checkpoint (push-hf|delete))$/;

test("every command is covered", () => {
  const named = commandTable.map(({ words }) => words.join(" "));
  expect(named.filter((words) => !alone.test(words)).sort()).toEqual(rows.map(([words]) => words).sort());
});

/** Processes that started an engine. */
const engines = () =>
  readFileSync(workers, "utf8")
    .split("\n")
    .filter((line) => /worker\/worker\.js$/.test(line))
    .map((line) => Number(line.split(" ")[0]));

test("each command uses the server that runs, and starts no engine", async () => {
  let session = "";
  for (const [words, args] of rows) {
    const stdin = words === "chat" ? "Hello\n/exit\n" : undefined;
    const { code, stdout, stderr } = await run([...words.split(" "), ...args(session), "--local", ...data()], stdin);
    expect([words, code, `${stdout}\n${stderr}`]).toEqual([
      words,
      0,
      expect.stringContaining(`Using tinklet serve at ${server.url}`),
    ]);
    expect([words, engines()], stderr).toEqual([words, [server.pid]]);
    if (words === "session list") session = /\b(s-[0-9a-f]{20})\b/.exec(stdout)?.[1] ?? "";
  }
  expect(existsSync(join(tool.work, "got"))).toBe(true);
  const answer = await fetch(`${server.url}/healthz`);
  expect(answer.status).toBe(200);
}, 300_000);
