// Every command through the real executable: in a pipe, as JSON, on a terminal, and refused. The table must have a row for each
// command of the tool, so a command without a test does not get in.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Datum, ModelInput, ServiceClient } from "../../../packages/sdk/src/index.ts";
import { hashApiKey } from "../../../packages/server/src/index.ts";
import { chatExport } from "../../../packages/server/src/testing/trace-exports.ts";
import { commandTable } from "../../../packages/tinklet/src/cli/commands.ts";
import { baseModel, type Ended, Executable, fakeServer, hasPty, type StartOptions, tokenizer } from "./executable.ts";
import { startUploadHub, type UploadHub } from "./upload-hub.ts";

vi.setConfig({ testTimeout: 120_000 }); // dozens of processes: a busy machine is no failure

type Mode = "pipe" | "json" | "terminal";

interface Row {
  /** A call that works. */
  readonly args: (mode: Mode) => readonly string[];
  /** What it shows to people. */
  readonly prints: RegExp;
  /** Members of its JSON, or of the last line of its stream. `null`: it has no JSON of its own. */
  readonly json: object | null;
  readonly stdin?: string;
  readonly env?: (mode: Mode) => Readonly<Record<string, string>>;
  /** Its exit code. @defaultValue 0 */
  readonly code?: number;
  /** Runs until Ctrl-C once it has printed that. */
  readonly runsOn?: true;
  /** Talks to the server of the environment. */
  readonly remote?: true;
  /** Asks the server at once, where the call above may not. */
  readonly asks?: () => readonly string[];
  /** Where it tells of a server that refuses or is not there. @defaultValue stderr */
  readonly tells?: "stdout";
  /** Calls that fail: what is wrong, the arguments, the exit code, the message. */
  readonly fails: readonly (readonly [what: string, args: () => readonly string[], code: 1 | 2, message: RegExp])[];
}

let tool: Executable;
let server: Awaited<ReturnType<typeof fakeServer>>;
let keyed: typeof server;
let hub: UploadHub;
let runId: string;
let sessionId: string;
/** Runs to be deleted. */
const doomed: Record<Mode, string> = { pipe: "", json: "", terminal: "" };
/** Traces: one to show, and one to be deleted in each mode. */
const shownTrace = "0af7651916cd43dd8448eb211c80319c";
const doomedTrace: Record<Mode, string> = {
  pipe: "1af7651916cd43dd8448eb211c80319c",
  json: "2af7651916cd43dd8448eb211c80319c",
  terminal: "3af7651916cd43dd8448eb211c80319c",
};
/** The run in each data folder that no server has open. */
const kept: Record<Mode | "shown" | "asked", string> = { pipe: "", json: "", terminal: "", shown: "", asked: "" };
let env: Record<string, string>;

beforeAll(async () => {
  [tool, server, keyed, hub] = await Promise.all([
    Executable.build({ server: true }),
    fakeServer(),
    fakeServer({ apiKeys: [{ name: "me", sha256: hashApiKey("tml-right") }] }),
    startUploadHub(),
  ]);
  env = { TINKER_BASE_URL: server.url, TINKER_API_KEY: "tml-test", HF_ENDPOINT: hub.endpoint, HF_TOKEN: hub.token };
  const service = new ServiceClient({ baseUrl: server.url, apiKey: "tml-test", telemetry: false });
  const trainer = await service.createLoraTrainingClient({ baseModel, rank: 4, seed: 1 });
  const tokens = [1, 2, 3];
  const lossFnInputs = { target_tokens: tokens, weights: [1, 1, 1] };
  await trainer.step([new Datum({ modelInput: ModelInput.fromInts(tokens), lossFnInputs })], "cross_entropy", {});
  for (const mode of ["pipe", "json", "terminal"]) await trainer.saveState(mode); // one for each deletion
  await trainer.saveWeightsForSampler("final");
  for (const mode of ["pipe", "json", "terminal"] as const) {
    const other = await service.createLoraTrainingClient({ baseModel, rank: 4 });
    await other.saveState("x");
    doomed[mode] = other.modelId;
  }
  await Promise.all(Object.keys(kept).map(keepRun));
  const traces = [
    { traceId: shownTrace, prompt: "Where is bob@example.com?", answer: "At home.", model: "support" },
    ...Object.values(doomedTrace).map((traceId) => ({ traceId, prompt: "x", model: "other" })),
  ];
  const sent = await fetch(`${server.url}/v1/traces`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(chatExport(traces)),
  });
  expect(sent.status).toBe(200);
  runId = trainer.modelId;
  sessionId = service.sessionId as string;
  await service.close();
  file(
    "data.jsonl",
    Array.from({ length: 8 }, (_, at) => `{"prompt":"Count ${at}:","completion":" ${at}"}\n`).join(""),
  );
  file("bad.jsonl", '{"text":"fine"}\n{"text":\n');
  mkdirSync(join(tool.work, "run"));
  file("run/metrics.jsonl", '{"step":0,"train_mean_nll":2}\n{"step":1,"train_mean_nll":1}\n');
}, 60_000);
afterAll(async () => {
  await Promise.all([server?.close(), keyed?.close(), hub?.close()]);
  tool?.remove();
});

const folderOf = (name: string) => join(tool.work, `kept-${name}`);
/** Makes a data folder with one run that has one checkpoint. */
async function keepRun(name: string): Promise<void> {
  const owner = await fakeServer({ dataDir: folderOf(name) });
  const service = new ServiceClient({ baseUrl: owner.url, apiKey: "tml-test", telemetry: false });
  const trainer = await service.createLoraTrainingClient({ baseModel, rank: 4 });
  await trainer.saveState("x");
  kept[name as keyof typeof kept] = trainer.modelId;
  await service.close();
  await owner.close();
}
const file = (name: string, text: string) => writeFileSync(join(tool.work, name), text);
const path = () => `tinker://${runId}/sampler_weights/final`;
const model = ["--model", baseModel, "--tokenizer", tokenizer];
const training = ["--rank", "4", "--batch-size", "4", "--learning-rate", "0.01", "--test-share", "0"];
const sampling = [...model, "--max-tokens", "4", "--seed", "1"];
const hours = () => [0, 1].map((add) => `${new Date(Date.now() + add * 3_600_000).toISOString().slice(0, 13)}:00:00Z`);
/** A data folder of its own for each local server. */
const local = (name: string, mode: Mode) => ["--local", "--data-dir", join(tool.work, `${name}-${mode}`)];
const noSuchRun = (...words: string[]) =>
  ["a run that is not there", () => [...words, "nobody:train:0"], 1, /^Error: /] as const;
const noSuchCheckpoint = (...words: string[]) =>
  ["a checkpoint that is not there", () => [...words, `${runId}:nope`], 1, /no (sampler )?checkpoint "nope"/] as const;

/** A home folder with a stored key. */
function storedHome(name: string, record: object = {}): string {
  const home = join(tool.work, `home-${name}`);
  mkdirSync(join(home, ".tinker"), { recursive: true });
  const details = { org_details: { name: "Lab" }, user_details: { email: "me@lab" } };
  const key = { type: "manual", key: "tml-stored", name: "mine", note: "", details, ...record };
  writeFileSync(
    join(home, ".tinker", "credentials.json"),
    JSON.stringify({ version: 1, default: "7", keys: { 7: key } }),
  );
  return home;
}

const rows: Readonly<Record<string, Row>> = {
  quickstart: {
    args: (mode) => ["quickstart", "--steps", "2", "--out", `q-${mode}`, ...local("q", mode)],
    prints:
      /What is the capital of Spain\?[\s\S]*loss on unseen conversations fell[\s\S]*tinklet chat --local --from q-/,
    json: { type: "done", nll_before: expect.any(Number), adapter: join("q-json", "adapter") },
    fails: [
      ["a folder that cannot be made", () => ["quickstart", "--out", "data.jsonl/x"], 1, /could not be written/],
      [
        "another run's folder",
        () => ["quickstart", "--out", "run"],
        1,
        /run\/metrics\.jsonl: does not belong to this run/,
      ],
      ["no steps at all", () => ["quickstart", "--steps", "0"], 2, /--steps must be a whole number from 1 on/],
    ],
  },
  doctor: {
    args: (mode) => ["doctor", ...local("d", mode)],
    prints: /✓ Node[\s\S]*✓ Server[\s\S]*✓ Training step {2}loss per token \d/,
    json: { checks: expect.arrayContaining([expect.objectContaining({ name: "Training step", status: "ok" })]) },
    remote: true,
    tells: "stdout",
    fails: [["a key that is none", () => ["doctor", "--skip-training", "--api-key", "x"], 1, /^Warning: .*\n$/]],
  },
  train: {
    args: (mode) => ["train", "data.jsonl", ...model, ...training, "--out", `t-${mode}`],
    prints: /Done\. tinker:\/\//,
    json: { type: "done", next_step: 20, total_steps: 20, sampler_path: expect.stringMatching(/^tinker:/) },
    remote: true,
    fails: [
      [
        "a missing file",
        () => ["train", "none.jsonl", ...model, ...training],
        1,
        /^Error: none.jsonl: there is no such/,
      ],
      ["a bad line", () => ["train", "bad.jsonl", ...model, ...training], 1, /^Error: bad.jsonl:2: is not JSON/],
      ["a rate nobody knows", () => ["train", "data.jsonl", ...model], 2, /--learning-rate is missing/],
    ],
  },
  inspect: {
    args: () => ["inspect", "data.jsonl", ...model],
    prints: /data\.jsonl: 8 examples\n[\s\S]*Learned +24/,
    json: { examples: 8 },
    fails: [
      ["a missing file", () => ["inspect", "none.jsonl", ...model], 1, /^Error: none.jsonl: there is no such file/],
      ["a bad line", () => ["inspect", "bad.jsonl", ...model], 1, /^Error: bad.jsonl:2: is not JSON/],
    ],
  },
  eval: {
    args: (mode) => [
      "eval",
      "data.jsonl",
      "--from",
      path(),
      "--base",
      ...model,
      "--max-tokens",
      "4",
      "--out",
      `e-${mode}`,
    ],
    prints:
      /data\.jsonl: 8 examples[\s\S]*LOSS +PERPLEXITY +EXACT[\s\S]*test\/model +\d[\s\S]*tinker:\/\/\S+final +\d[\s\S]*Count 0:[\s\S]*expected +0/,
    json: { format: "tinklet-eval/1", items: 8, models: [{ path: null }, { label: expect.stringMatching(/final$/) }] },
    remote: true,
    fails: [
      noSuchCheckpoint("eval", "data.jsonl", "--from"),
      [
        "data that is not there",
        () => ["eval", "nowhere.jsonl", ...model],
        1,
        /nowhere\.jsonl: could not be (read|opened)|no such file/,
      ],
      [
        "a misspelt recipe",
        () => ["eval", "math-rk", ...model],
        2,
        /neither a file nor a recipe\. Did you mean math-rl\?/,
      ],
      [
        "a recipe without tasks",
        () => ["eval", "dpo", ...model],
        1,
        /has no tasks[\s\S]*Recipes with tasks: eval, math-rl/,
      ],
      [
        "a score that does not exist",
        () => ["eval", "data.jsonl", "--score", "exat", ...model],
        2,
        /Did you mean exact\?/,
      ],
      ["no pattern", () => ["eval", "data.jsonl", "--regex", "(", ...model], 2, /regex must be a regular expression/],
      ["a score of a recipe", () => ["eval", "math-rl", "--judge", "x", ...model], 2, /--judge is for data files/],
    ],
  },
  plot: {
    args: () => ["plot", "run"],
    prints: /2 │[⠀-⣿][\s\S]*train_mean_nll/,
    json: {
      series: [
        {
          name: "train_mean_nll",
          points: [
            [0, 2],
            [1, 1],
          ],
        },
      ],
    },
    fails: [["a folder that is none", () => ["plot", "nowhere"], 1, /nowhere has no metrics.jsonl/]],
  },
  sample: {
    args: () => ["sample", "Once upon", ...sampling],
    prints: /^Once upon./,
    json: { model: baseModel, prompt: "Once upon", samples: [{ tokens: 4 }] },
    remote: true,
    fails: [
      noSuchCheckpoint("sample", "Hi", "--from"),
      [
        "a model that is not served",
        () => ["sample", "Hi", "--model", "x/y", "--tokenizer", tokenizer],
        1,
        /"x\/y" is not served/,
      ],
    ],
  },
  chat: {
    args: () => ["chat", ...sampling],
    stdin: "Hello\n/exit\n",
    prints: /\S/,
    json: { role: "assistant", tokens: 4 },
    remote: true,
    fails: [noSuchCheckpoint("chat", "--from")],
  },
  serve: {
    args: (mode) => ["serve", "--port", "0", "--data-dir", join(tool.work, `s-${mode}`)],
    prints: /Serving tinklet\/base on http:\/\/127\.0\.0\.1:\d+/,
    json: { url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/), models: ["tinklet/base"] },
    runsOn: true,
    fails: [
      [
        "an open door",
        () => ["serve", "--host", "0.0.0.0"],
        1,
        /^Error: host is 0.0.0.0, which the network can reach/m,
      ],
      ["no key file", () => ["serve", "--api-keys", "no.keys"], 1, /^Error: no.keys: there is no such file/m],
      ["a bad key file", () => ["serve", "--api-keys", "data.jsonl"], 1, /^Error: data.jsonl: line 1 of the key file/m],
      ["a model that is not there", () => ["serve", "--model", "./none"], 1, /none/],
      [
        "a taken port",
        () => ["serve", "--port", new URL(server.url).port],
        1,
        /^Error: Port \d+ of 127.0.0.1 is in use/m,
      ],
      ["a budget that is none", () => ["serve", "--memory-budget", "lots"], 2, /must be a size such as 4GB/],
    ],
  },
  status: {
    args: (mode) => ["status", ...local("free", mode).slice(1)],
    prints: /No server runs on .*free-/,
    json: { state: "none" },
    code: 1,
    fails: [["no folder", () => ["status", "--data-dir", "memory"], 2, /--data-dir memory keeps nothing/]],
  },
  stop: {
    args: (mode) => ["stop", ...local("free", mode).slice(1)],
    prints: /No tinklet serve runs on .*free-/,
    json: { state: "stopped", stopped_pid: null },
    fails: [
      ["no folder", () => ["stop", "--data-dir", "memory"], 2, /--data-dir memory keeps nothing/],
      ["a time that is none", () => ["stop", "--timeout", "long"], 2, /--timeout must be a number/],
    ],
  },
  studio: {
    args: () => ["studio", "run", "--port", "0"],
    prints: /Studio: http:\/\/127\.0\.0\.1:\d+\/#\/runs\?token=[\w-]{32}/,
    json: { studio: expect.stringMatching(/#\/runs\?token=/), folders: ["run"] },
    runsOn: true,
    fails: [["a folder that is none", () => ["studio", "nowhere"], 1, /^Error: nowhere is not a folder/m]],
  },
  "recipe list": {
    args: () => ["recipe", "list"],
    prints: /RECIPE +WHAT IT DOES[\s\S]*math-rl +reinforcement learning on sums/,
    json: { recipes: expect.arrayContaining([expect.objectContaining({ name: "math-rl" })]) },
    fails: [["a word too many", () => ["recipe", "list", "sft"], 2, /"sft" is one argument too many/]],
  },
  "recipe copy": {
    args: (mode) => ["recipe", "copy", "sft", `copied-${mode}.ts`],
    prints: /Wrote copied-\w+\.ts\. Run it:\n\n {2}npx tinklet recipe run \.\/copied/,
    json: { recipe: "sft", file: "copied-json.ts" },
    fails: [["a recipe that is none", () => ["recipe", "copy", "sftt"], 1, /sftt/]],
  },
  "recipe run": {
    args: (mode) => ["recipe", "run", "sft", "--local", "--max-steps", "1", "--out", `recipe-${mode}`],
    prints: /before[\s\S]*after/i,
    json: { before: expect.any(Number), after: expect.any(Number) },
    fails: [
      ["no steps", () => ["recipe", "run", "sft", "--max-steps", "0"], 2, /--max-steps/],
      ["a dry run of no model", () => ["recipe", "run", "sft", "--dry-run"], 2, /--model is missing/],
      [
        "no price",
        () => ["recipe", "run", "sft", "--model", "a/b", "--max-cost", "1"],
        2,
        /--max-cost needs a price for a\/b/,
      ],
      [
        "a recipe that is none",
        () => ["recipe", "run", "sftt"],
        2,
        /Did you mean sft\?[\s\S]*The recipes are: code-rl, dpo, eval/,
      ],
      [
        "a logger that is none",
        () => ["recipe", "run", "sft", "--log-to", "wandb"],
        2,
        /tensorboard, trackio, not "wandb"/,
      ],
    ],
  },
  conformance: {
    args: () => ["conformance", "--only", "sessions/heartbeat", "--only", "sessions/distinct"],
    prints: /2 cases: 2 passed, 0 failed/,
    json: { passed: true },
    remote: true,
    fails: [
      ["no address", () => ["conformance", "--base-url", "nowhere"], 2, /--base-url "nowhere" is not a URL/],
      [
        "a case that is none",
        () => ["conformance", "--only", "sessions/heartbeat", "--only", "x"],
        2,
        /unknown group or case x\. The groups: routes, encoding/,
      ],
      [
        "a group that is none",
        () => ["conformance", "--only", "loses"],
        2,
        /unknown group or case loses\. Did you mean losses\?/,
      ],
      ["a case of a group that is none", () => ["conformance", "--only", "losses/x"], 2, /losses has losses\//],
    ],
  },
  "run list": {
    args: () => ["run", "list"],
    prints: /Name +Base Model +LoRA +Last Update +Status/,
    json: { runs: expect.arrayContaining([expect.objectContaining({ base_model: baseModel })]) },
    remote: true,
    fails: [["an unknown column", () => ["run", "list", "-c", "who"], 2, /Unknown column\(s\): who/]],
  },
  "run info": {
    args: () => ["run", "info", runId],
    prints: /Base Model +test\/model/,
    json: { base_model: baseModel, lora_rank: 4 },
    remote: true,
    fails: [noSuchRun("run", "info")],
  },
  "run delete": {
    args: (mode) => ["run", "delete", doomed[mode], ...(mode === "json" ? ["-y"] : [])],
    stdin: "y\n",
    prints: /Deleted \S+:train:\d with 1 checkpoint\(s\)/,
    json: { deleted: [{ deleted_checkpoints: 1, run_kept: false }] },
    remote: true,
    asks: () => ["run", "delete", runId, "-y"],
    fails: [noSuchRun("run", "delete", "-y")],
  },
  "checkpoint list": {
    args: () => ["checkpoint", "list", "--run-id", runId],
    prints: /Checkpoint +Files +Size +Public +Created +Expires/,
    json: { checkpoints: expect.any(Array) },
    remote: true,
    fails: [noSuchRun("checkpoint", "list", "--run-id")],
  },
  "checkpoint info": {
    args: () => ["checkpoint", "info", `${runId}:final`],
    prints: /Tinker Path +tinker:/,
    json: { checkpoint_id: "sampler_weights/final" },
    remote: true,
    fails: [noSuchCheckpoint("checkpoint", "info")],
  },
  "checkpoint publish": {
    args: () => ["checkpoint", "publish", path()],
    prints: /Published:\s+Path\s+tinker:/,
    json: { checkpoints: [{ tinker_path: expect.stringMatching(/final$/), public: true }] },
    remote: true,
    fails: [noSuchCheckpoint("checkpoint", "publish")],
  },
  "checkpoint unpublish": {
    args: () => ["checkpoint", "unpublish", path()],
    prints: /Made private:\s+Path\s+tinker:/,
    json: { checkpoints: [{ tinker_path: expect.stringMatching(/final$/), public: false }] },
    remote: true,
    fails: [noSuchCheckpoint("checkpoint", "unpublish")],
  },
  "checkpoint set-ttl": {
    args: () => ["checkpoint", "set-ttl", path(), "--ttl", "90000"],
    prints: /Kept until \d{4}-\d\d-\d\dT\S+Z:\s+Path\s+tinker:/,
    json: { checkpoints: [{ tinker_path: expect.stringMatching(/final$/), ttl_seconds: 90000 }] },
    remote: true,
    fails: [["neither choice", () => ["checkpoint", "set-ttl", path()], 2, /either --ttl <seconds> or --remove/]],
  },
  "checkpoint delete": {
    args: (mode) => ["checkpoint", "delete", `tinker://${runId}/weights/${mode}`, ...(mode === "json" ? ["-y"] : [])],
    stdin: "y\n",
    prints: /Deleted 1 checkpoint\(s\)/,
    json: { deleted_count: 1, failed: [] },
    remote: true,
    asks: () => ["checkpoint", "delete", "--run-id", runId, "-y"], // single deletions that fail are told one by one
    fails: [["nothing to delete", () => ["checkpoint", "delete"], 2, /Must specify checkpoint paths or --run-id/]],
  },
  "checkpoint download": {
    args: (mode) => ["checkpoint", "download", path(), "-o", `got-${mode}`],
    prints: /Extracted to +got-/,
    json: { checkpoint_path: expect.stringMatching(/final$/), destination: expect.stringMatching(/^got-json/) },
    remote: true,
    asks: () => ["checkpoint", "download", path(), "-o", "elsewhere"],
    fails: [noSuchCheckpoint("checkpoint", "download")],
  },
  export: {
    args: (mode) => ["export", path(), "--format", "peft", "--out", `exported-${mode}`],
    prints: /Written to +.*exported-/,
    json: { format: "peft", destination: expect.stringMatching(/exported-json$/), notes: [] },
    remote: true,
    asks: () => ["export", path(), "--format", "peft", "--out", "never"],
    fails: [
      noSuchCheckpoint("export", "--format", "peft"),
      ["no format", () => ["export", path()], 2, /--format is missing: one of peft, tinker, merged, gguf/],
      [
        "a wrong format",
        () => ["export", path(), "--format", "json"],
        2,
        /--format must be one of peft, tinker, merged, gguf/,
      ],
      [
        "a dtype of another format",
        () => ["export", path(), "--format", "merged", "--dtype", "q8_0", "--out", "x"],
        2,
        /--dtype must be one of base, f32, f16, bf16 for merged/,
      ],
      [
        "a place that is taken",
        () => ["export", path(), "--format", "gguf", "--out", "."],
        2,
        /--out .* already exists/,
      ],
      [
        "a base that is not here",
        () => ["export", path(), "--format", "gguf", "--out", "x.gguf"],
        1,
        /was not found on this machine[\s\S]*--base/,
      ],
    ],
  },
  "checkpoint push-hf": {
    args: (mode) => ["checkpoint", "push-hf", path(), "--repo", `mine-${mode}`],
    prints: /Repo ID +someone\/mine-/,
    json: { repo_id: "someone/mine-json", public: false },
    remote: true,
    fails: [noSuchCheckpoint("checkpoint", "push-hf")],
  },
  "session list": {
    args: () => ["session", "list"],
    prints: /Session ID/,
    json: { sessions: expect.any(Array) },
    remote: true,
    fails: [["a limit that is none", () => ["session", "list", "--limit", "x"], 2, /--limit must be a whole number/]],
  },
  "session info": {
    args: () => ["session", "info", sessionId],
    prints: /:train:0/,
    json: { training_run_ids: expect.any(Array) },
    remote: true,
    fails: [["a session that is not there", () => ["session", "info", "none"], 1, /^Error: Resource not found/]],
  },
  "session export-trace": {
    args: (mode) => ["session", "export-trace", sessionId, "-o", `${mode}.pftrace`],
    prints: /Saved to +\w+\.pftrace/,
    json: { destination: "json.pftrace" },
    remote: true,
    fails: [
      ["a session that is not there", () => ["session", "export-trace", "none"], 1, /^.*\nError: Resource not found/],
    ],
  },
  "traces list": {
    args: () => ["traces", "list", "--model", "support", "--since", "520w"],
    prints:
      /1 trace\s+Trace ID[\s\S]*0af7651916cd43dd8448eb211c80319c +\S.*support +Where is bob@example.com\? +At home\./,
    json: { traces: [{ trace_id: shownTrace, models: ["support"], input_tokens: 7, output_tokens: 3 }] },
    remote: true,
    fails: [
      ["an invalid time", () => ["traces", "list", "--since", "soon"], 2, /--since must be an age such as 12h/],
      ["an invalid expression", () => ["traces", "list", "--regex", "("], 1, /regex: Invalid regular expression/],
    ],
  },
  "traces show": {
    args: () => ["traces", "show", shownTrace],
    prints: /Conversation: support\s+user\s+Where is bob@example.com\?\s+assistant \(span [0-9a-f]{16}\)\s+At home\./,
    json: { trace: { trace_id: shownTrace }, conversations: [{ turns: [{}, { message: { content: "At home." } }] }] },
    remote: true,
    fails: [
      [
        "a trace that is not there",
        () => ["traces", "show", "ff"],
        1,
        /There is no trace[\s\S]*Hint: tinklet traces list/,
      ],
    ],
  },
  "traces rate": {
    args: () => ["traces", "rate", shownTrace, "--up", "--comment", "right"],
    prints: /^Rated [0-9a-f]{16}: up\s+$/,
    json: { trace_id: shownTrace, rating: "up", comment: "right", answer: null },
    remote: true,
    fails: [
      ["no rating", () => ["traces", "rate", shownTrace], 2, /give --up, --down, --comment, --answer or --clear/],
      ["two", () => ["traces", "rate", shownTrace, "--up", "--down"], 2, /--up goes without --down/],
    ],
  },
  "traces export": {
    args: (mode) => ["traces", "export", shownTrace, "--output", join(tool.work, `traces-${mode}.jsonl`)],
    prints: /Wrote 1 line to \S+traces-\w+\.jsonl/,
    json: { lines: 1, redacted_messages: 1, skipped: {} },
    remote: true,
    fails: [["another kind", () => ["traces", "export", "--as", "csv"], 2, /one of sft, dpo, tokens/]],
  },
  "traces delete": {
    args: (mode) => ["traces", "delete", doomedTrace[mode], ...(mode === "json" ? ["-y"] : [])],
    stdin: "y\n",
    prints: /Deleted 1 trace\s+$/,
    json: { deleted: [doomedTrace.json] },
    remote: true,
    fails: [["a trace that is not there", () => ["traces", "delete", "ff", "-y"], 1, /There is no trace/]],
  },
  "billing usage": {
    args: () => ["billing", "usage", ...hours()],
    prints: /hourly usage row\(s\)/,
    json: { data: expect.any(Array), sessions: expect.any(Object) },
    remote: true,
    fails: [
      ["no time", () => ["billing", "usage", "yesterday", "today"], 2, /^Error: STARTING_ON must be a timestamp/],
    ],
  },
  "billing checkpoint-storage": {
    args: () => ["billing", "checkpoint-storage"],
    prints: /^Current checkpoint storage\s+effective_rate_usd_per_gigabyte_month +project_id[\s\S]*size_bytes/,
    json: { effective_rate_usd_per_gigabyte_month: null, data: [{ user_email: null, size_bytes: expect.any(Number) }] },
    remote: true,
    fails: [
      ["a folder that is not there", () => ["billing", "checkpoint-storage", "--csv", "no/x.csv"], 1, /no\/x\.csv/],
    ],
  },
  "billing storage": {
    args: () => ["billing", "storage", "--explain"],
    prints:
      /^\d+ checkpoint\(s\) of \d+ run\(s\), [^\n]*this server names no price[\s\S]*run +checkpoints +without expiry +size/,
    json: { complete: true, runs: expect.any(Array), freeing: expect.any(Array) },
    remote: true,
    fails: [
      [
        "an option of the other form",
        () => ["billing", "storage", "--explain", "--csv", "x.csv"],
        2,
        /^Error: --csv cannot be combined with --explain/,
      ],
    ],
  },
  "model list": {
    args: () => ["model", "list", "TEST"],
    prints: /Model +Max Context +Trainable +Sampleable\s+test\/model +\d+/,
    json: { models: [{ model_name: baseModel, max_context_length: expect.any(Number) }] },
    remote: true,
    fails: [["a name that no model has", () => ["model", "list", "zzz"], 1, /^Error: No model name contains 'zzz'/]],
  },
  "auth login": {
    args: () => ["auth", "login"],
    stdin: "tml-pasted\n",
    env: (mode) => ({ HOME: join(tool.work, `login-${mode}`) }),
    prints: /Logged in as .*\(tinklet\)\. Stored API key '.*' for http:\/\/127\.0\.0\.1:\d+\./,
    json: null,
    fails: [["no key", () => ["auth", "login"], 1, /^Error: The API key must not be empty/]],
  },
  "auth logout": {
    args: () => ["auth", "logout"],
    env: (mode) => ({ HOME: storedHome(mode), TINKER_BASE_URL: "" }),
    prints:
      /^Removed credential 'mine'\. The API key is still active\.\s+API key organization: Lab\s+Delete api key here: https:\S+\/keys\/7/,
    json: null,
    fails: [
      ["nothing stored", () => ["auth", "logout"], 1, /^Error: No default credential is stored for http:\S+\nHint: /],
    ],
  },
  "auth status": {
    args: () => ["auth", "status"],
    prints: /^Credentials available: yes\s+Tinker accessible: yes\s+$/,
    json: { credentials: true, accessible: true },
    remote: true,
    fails: [
      ["a key that is none", () => ["auth", "status", "--api-key", "x"], 1, /No Tinker credentials are available/],
    ],
  },
  "auth whoami": {
    args: () => ["auth", "whoami"],
    prints: /Email +N\/A\s+User +tml:user:local\s+Organization +tml:organization:tinklet/,
    json: { user_urn: "tml:user:local", org_urn: "tml:organization:tinklet", email: null },
    remote: true,
    fails: [["a key that is none", () => ["auth", "whoami", "--api-key", "x"], 1, /must begin with tml-/]],
  },
  data: {
    args: () => ["data", "--data-dir", folderOf("shown")],
    prints: /kept-shown: \d[\s\S]*checkpoints +\d[\s\S]*Run ID +Size[\s\S]*:train:0 /,
    json: {
      total_bytes: expect.any(Number),
      kinds: expect.arrayContaining([{ kind: "checkpoints", count: 1, bytes: expect.any(Number) }]),
      runs: [{ run_id: expect.stringMatching(/:train:0$/), checkpoints: 1, published: 0, pending_requests: 0 }],
    },
    fails: [
      ["a folder in memory", () => ["data", "--data-dir", "memory"], 2, /memory keeps nothing/],
      ["a word too many", () => ["data", "prun"], 2, /"prun" is one argument too many/],
    ],
  },
  "data prune": {
    args: (mode) => [
      ...["data", "prune", "--data-dir", folderOf(mode)],
      ...(mode === "pipe" ? ["--run", kept.pipe] : ["--older-than", "0h"]),
      ...(mode === "json" ? ["-y"] : []),
    ],
    stdin: "y\n",
    prints: /Deleted 1 item\(s\), freed \d/,
    json: { deleted_runs: [{ deleted_checkpoints: 1, published_kept: 0 }], freed_bytes: expect.any(Number) },
    fails: [
      [
        "two choices",
        () => ["data", "prune", "--run", "a", "--steps"],
        2,
        /--run goes without --steps, --older-than, --traces and --lost/,
      ],
      ["an age that is none", () => ["data", "prune", "--older-than", "7"], 2, /an age such as 12h, 7d or 4w, not "7"/],
      [
        "a run that is not there",
        () => ["data", "prune", "--run", "nobody:train:0", "--data-dir", folderOf("shown")],
        1,
        /^Error: .*kept-shown has no run nobody:train:0/,
      ],
    ],
  },
  completions: {
    args: () => ["completions", "bash"],
    prints: /complete -o default -F _tinklet tinklet\n$/,
    json: null,
    fails: [["a shell nobody has", () => ["completions", "tcsh"], 2, /one of bash, zsh, fish/]],
  },
  version: { args: () => ["version"], prints: /^tinklet \d+\.\d+\.\d+\n$/, json: null, fails: [] },
};
const all = Object.entries(rows);

/** Runs a call to its end; one that would go on is interrupted as a person does it. */
async function call(row: Row, mode: Mode): Promise<Ended> {
  const args = [...row.args(mode), ...(mode === "json" && row.json !== null ? ["--json"] : [])];
  const options: StartOptions = {
    env: { ...env, ...row.env?.(mode) },
    pty: mode === "terminal",
    stdin: row.runsOn ? null : (row.stdin ?? ""),
  };
  if (!row.runsOn) return tool.run(args, options);
  const running = tool.start(args, options);
  await running.line((line) => (mode === "json" ? line.startsWith("{") : row.prints.test(line)));
  if (mode === "terminal") running.child.stdin.write("\x03");
  else running.child.kill("SIGINT");
  return running.ended;
}

/** Every name in a JSON value. */
const keysOf = (value: unknown): string[] =>
  typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([key, inner]) => [...(Array.isArray(value) ? [] : [key]), ...keysOf(inner)]);

/** A terminal's text without its control sequences. */
const plain = (text: string) =>
  text
    .replaceAll("\x1b", "␛")
    .replace(/␛\[[0-9;?]*[a-zA-Z]/g, "")
    .replaceAll("\r", "");

it("there is a row for every command of the tool, and no other", () => {
  expect(Object.keys(rows).toSorted()).toEqual(commandTable.map(({ words }) => words.join(" ")).toSorted());
});

describe("in a pipe", () => {
  it.each(all)("%s", async (_, row) => {
    const { code, stdout, stderr } = await call(row, "pipe");
    expect(stdout, stderr).toMatch(row.prints);
    expect(stdout + stderr).not.toContain("\x1b");
    expect(code).toBe(row.code ?? 0);
  });
});

describe("as JSON", () => {
  it.each(all.filter(([, { json }]) => json !== null))("%s", async (_, row) => {
    const { code, stdout, stderr } = await call(row, "json");
    expect(code, stderr).toBe(row.code ?? 0);
    const lines = stdout.trimEnd().split("\n");
    const isStream = lines.every((line) => line.startsWith("{") && line.endsWith("}"));
    const values = isStream ? lines.map((line) => JSON.parse(line)) : [JSON.parse(stdout)];
    expect(values.at(-1)).toMatchObject(row.json as object);
    expect(values.flatMap(keysOf).filter((key) => /^[a-z]+[A-Z]\w*$/.test(key))).toEqual([]); // one convention: the wire's
  });
});

describe.runIf(hasPty)("on a terminal", () => {
  it.each(all)("%s", async (_, row) => {
    const { code, stdout } = await call(row, "terminal");
    expect(plain(stdout)).toMatch(row.prints);
    expect(code).toBe(row.code ?? 0);
  });
});

describe("refused", () => {
  const failures = all.flatMap(([name, { fails }]) => fails.map((fail) => [name, ...fail] as const));
  it.each(failures)("%s: %s", async (_, __, args, code, message) => {
    const ended = await tool.run(args(), { env });
    expect(ended.stderr).toMatch(message);
    expect(ended.stderr).not.toContain("    at ");
    expect(ended.code).toBe(code);
  });

  it.each(all.filter(([name]) => name !== "version"))("%s: an option that it does not have", async (name) => {
    const ended = await tool.run([...name.split(" "), "--nope"], { env });
    expect(ended).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("'--nope'") });
  });

  const remote = all.filter(([, row]) => row.remote);
  /** The row's call without what would keep it from the server. */
  const asked = (row: Row) => (row.asks?.() ?? row.args("pipe")).filter((arg) => arg !== "--local");
  it.each(remote)("%s: a wrong key", async (_, row) => {
    const wrong = { ...env, TINKER_BASE_URL: keyed.url, TINKER_API_KEY: "tml-wrong" };
    const ended = await tool.run(asked(row), { env: wrong, stdin: row.stdin ?? "" });
    expect(ended[row.tells ?? "stderr"]).toMatch(/Authentication failed|not accepted|401/);
    expect(ended.stdout + ended.stderr).not.toContain("tml-wrong");
    expect(ended.code).toBe(1);
  });

  it("a dead server, whatever is asked of it", async () => {
    // A free port that nobody listens on: the first contact is tried for a while, so all wait at the same time.
    const dead = { ...env, TINKER_BASE_URL: "http://127.0.0.1:9" };
    const ended = await Promise.all(
      remote.map(async ([name, row]) => ({
        name,
        row,
        ...(await tool.run(asked(row), { env: dead, stdin: row.stdin ?? "" })),
      })),
    );
    for (const { name, row, code, ...texts } of ended) {
      expect(texts[row.tells ?? "stderr"], name).toMatch(/Connection failed|could not be reached|ECONNREFUSED/);
      expect(texts.stderr, name).not.toContain("    at ");
      expect(code, name).toBe(1);
    }
  }, 120_000);
});

describe("serve", () => {
  it("answers until it is stopped, refuses a second one on its folder, and keeps what it had", async () => {
    const folder = ["--data-dir", join(tool.work, "shared")];
    const first = tool.start(["serve", "--port", "0", ...folder, "--json"], { stdin: null });
    const { url } = JSON.parse(await first.line((line) => line.includes('"url"'))) as { url: string };
    const at = { TINKER_BASE_URL: url, TINKER_API_KEY: "tml-local" };
    expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ status: "ok" });
    const tiny = [
      "train",
      "data.jsonl",
      "--learning-rate",
      "0.01",
      "--batch-size",
      "4",
      "--no-export",
      "--out",
      "served",
    ];
    expect(await tool.run(tiny, { env: at })).toMatchObject({ code: 0 }); // one model: --model goes without saying
    const second = await tool.run(["serve", "--port", "0", ...folder], {});
    expect(second).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /Error: .*tinklet serve \(process \d+\) uses the data folder, at http.*\n.*--data-dir/,
      ),
    });
    // Commands with --local use the running server; options that differ are refused.
    const text = ["sample", "Hi", "--local", "--from", "served", "--max-tokens", "4"];
    const beside = await tool.run([...text, ...folder], {});
    expect(beside, beside.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Hi./) });
    expect(beside.stderr).toContain(`Using tinklet serve at ${url}`);
    const attached = ["--local", "--learning-rate", "0.01", "--max-steps", "1", "--batch-size", "4", "--no-export"];
    const trained = await tool.run(["train", "data.jsonl", ...attached, "--out", "attached", ...folder], {});
    expect(trained, trained.stderr).toMatchObject({ code: 0 });
    const runs = await (await fetch(`${url}/api/v1/training_runs`, { headers: { "x-api-key": "tml-any" } })).json();
    expect(runs).toMatchObject({ cursor: { total_count: 2 } });
    const memory = await tool.run(["run", "list", "--local", "--data-dir", "memory"], {});
    expect(memory).toMatchObject({ code: 0, stdout: expect.stringContaining("No training runs found") });
    expect(memory.stderr).not.toContain("Using tinklet serve");
    const other = await tool.run(["sample", "Hi", "--local", "--model", "./other.gguf", ...folder], {});
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining("requested is ./other.gguf") });
    const program = await tool.program(
      "attached-program",
      'import { ServiceClient } from "tinklet";\nconst service = await ServiceClient.local();\nconsole.log(service.baseUrl);\nawait service.close();\n',
    );
    const environment = tool.environment({ TINKLET_DATA_DIR: join(tool.work, "shared") });
    expect(execFileSync(process.execPath, [program], { env: environment, encoding: "utf8" })).toBe(`${url}\n`);
    first.child.kill("SIGTERM");
    expect((await first.ended).code).toBe(0);
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
    const kept = await tool.run(["sample", "Hi", "--local", ...folder, "--from", "served", "--max-tokens", "4"], {});
    expect(kept, kept.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Hi./) });
  });

  it("a server that was killed leaves a folder that the next command uses", async () => {
    const folder = ["--data-dir", join(tool.work, "killed")];
    const running = tool.start(["serve", "--port", "0", ...folder, "--json"], { stdin: null });
    await running.line((line) => line.includes('"url"'));
    running.child.kill("SIGKILL");
    await running.ended;
    expect(existsSync(join(tool.work, "killed", "server.json"))).toBe(true);
    const next = await tool.run(["run", "list", "--local", ...folder], {});
    expect(next, next.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining("No training runs found") });
    expect(existsSync(join(tool.work, "killed", "server.json"))).toBe(false);
  });
});

describe("data", () => {
  it("deletes nothing that nobody agreed to, nor beside a server, and makes no folder", async () => {
    const folder = ["--data-dir", folderOf("asked")];
    const prune = ["data", "prune", "--older-than", "0h", ...folder];
    const unasked = await tool.run(prune, { stdin: "" });
    expect(unasked).toMatchObject({ code: 0, stdout: "Deletion cancelled.\n" });
    expect(unasked.stderr).toMatch(
      /Will delete 1 item\(s\):\n {2}- run: \S+:train:0 \(1 checkpoint, .*\n\nFrees about \d/,
    );
    const young = await tool.run(["data", "prune", "--older-than", "7d", "-y", ...folder]);
    expect(young).toMatchObject({ code: 0, stdout: "Nothing to delete.\n" });
    const owner = await fakeServer({ dataDir: folderOf("asked") });
    const beside = await tool.run([...prune, "-y"]);
    await owner.close();
    expect(beside).toMatchObject({ code: 1, stderr: expect.stringMatching(/a server is using.*\nHint: Stop it/) });
    const shown = JSON.parse((await tool.run(["data", "--json", ...folder])).stdout);
    expect(shown.runs).toMatchObject([{ run_id: kept.asked, checkpoints: 1 }]);
    const none = await tool.run(["data", "--data-dir", join(tool.work, "nowhere")]);
    expect(none.stdout).toMatch(/nowhere: there is nothing yet/);
    expect(existsSync(join(tool.work, "nowhere"))).toBe(false);
  });
});

describe("traces", () => {
  it("exports to the standard output what train reads, redacted unless that is switched off", async () => {
    const clean = await tool.run(["traces", "export", shownTrace], { env });
    expect(clean, clean.stderr).toMatchObject({ code: 0, stderr: expect.stringContaining("in 1 message") });
    expect(JSON.parse(clean.stdout).messages).toEqual([
      { role: "user", content: "Where is [EMAIL]?" },
      { role: "assistant", content: "At home." },
    ]);
    const raw = await tool.run(["traces", "export", shownTrace, "--no-redact"], { env });
    expect(JSON.parse(raw.stdout).messages[0].content).toBe("Where is bob@example.com?");
  });
});

describe("conformance", () => {
  it("--help names the groups that there are, and no other", async () => {
    const { groups } = await import("../../../packages/conformance/src/index.ts");
    const { stdout } = await tool.run(["conformance", "--help"]);
    const [, listed = ""] = /in groups: ([\s\S]*?)\.\n/.exec(stdout) ?? [];
    const named = listed.replace(/\s*\([^)]*\)/g, "").split(/,\s+/); // what a group is for may stand behind it
    expect(named).toEqual(groups.map(({ name }) => name));
  });
});

describe("train --dry-run", () => {
  it("measures on this machine and leaves nothing behind", async () => {
    const folder = ["--local", "--data-dir", join(tool.work, "untouched")];
    const dry = await tool.run(["train", "data.jsonl", ...folder, "--dry-run", "--json"]);
    expect(JSON.parse(dry.stdout), dry.stderr).toMatchObject({ local_tokens_per_second: expect.any(Number) });
    expect(existsSync(join(tool.work, "untouched"))).toBe(false);
    expect(existsSync(join(tool.work, "runs", "data"))).toBe(false);
  });
});

describe("recipe run --dry-run", () => {
  it("counts and prices every stage, without a key and without a trace", async () => {
    const before = readdirSync(tool.work).sort();
    const dry = ["recipe", "run", "sft", "--max-steps", "2", "--dry-run"];
    const counted = await tool.run([...dry, "--local", "--json"], { env: {} });
    expect(JSON.parse(counted.stdout), counted.stderr).toMatchObject({
      recipe: "sft",
      stages: [{ stage: "sft", steps: 2, train: expect.any(Number), sample: 0 }],
      cost_usd: null,
    });
    const table = join(tool.work, "..", `${basename(tool.work)}-prices.json`);
    writeFileSync(table, JSON.stringify({ [tokenizer]: { prefill: 1, sample: 3, train: 10, asOf: "2026-11-01" } }));
    try {
      const priced = await tool.run([...dry, "--model", tokenizer, "--prices", table, "--json"], { env: {} });
      const { total, cost_usd: cost } = JSON.parse(priced.stdout);
      expect(cost).toBeCloseTo((total.train * 10 + total.evaluate + total.sample * 3) / 1e6, 10);
      expect((await tool.run([...dry, "--local"], { env: {} })).stderr).toContain("Cost: nothing: this model is local");
    } finally {
      rmSync(table);
    }
    expect(readdirSync(tool.work).sort()).toEqual(before);
  });
});

describe("auth", () => {
  const credentials = (home: string) => join(home, ".tinker", "credentials.json");
  const key = "tml-right";

  it("stores a key that the server takes, for its owner's eyes alone, and uses it until it is forgotten", async () => {
    const HOME = join(tool.work, "owner");
    const at = { HOME, TINKER_BASE_URL: keyed.url };
    const run = async (args: string[], stdin = "") => {
      const ended = await tool.run(args, { env: at, stdin });
      expect(ended.stdout + ended.stderr).not.toContain(key);
      return ended;
    };
    expect(await run(["auth", "status"])).toMatchObject({ code: 1, stdout: "Credentials available: no\n" });
    expect(await run(["auth", "login"], "tml-other\n")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^Error: Could not validate the API key: .*HTTP 401 from \/api\/v1\/auth\/apikey\/me/,
      ),
    });
    expect(existsSync(credentials(HOME))).toBe(false);
    expect(await run(["auth", "login"], `  ${key}\n`)).toMatchObject({ code: 0 });
    expect(statSync(credentials(HOME)).mode & 0o777).toBe(0o600);
    expect(statSync(join(HOME, ".tinker")).mode & 0o777).toBe(0o700);
    expect(JSON.parse(readFileSync(credentials(HOME), "utf8"))).toMatchObject({
      version: 1,
      keys: { [`${keyed.url} 0`]: { type: "manual", key, name: "me", origin: keyed.url } },
    });
    expect(await run(["auth", "status"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("accessible: yes"),
    });
    expect(await run(["run", "list"])).toMatchObject({ code: 0 });
    const found = await run(["doctor", "--skip-training"]);
    expect(found.stdout).toMatch(/✓ Key {12}tml-… \(9 characters, stored by auth login\)\n✓ Server/);
    expect(await run(["auth", "login"], `${key}\n`)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("Already logged in"),
    });
    expect(await run(["auth", "logout"])).toMatchObject({ code: 0 });
    expect(readFileSync(credentials(HOME), "utf8")).not.toContain(key);
    expect(await run(["run", "list"])).toMatchObject({ code: 1, stderr: expect.stringContaining("No API key") });
    expect((await run(["doctor", "--skip-training"])).stdout).toMatch(
      /! Key {12}none[\s\S]*! Server {9}skipped: there is no key/,
    );
  });

  it("asks for a key of the hosted service by its page", async () => {
    const login = await tool.run(["auth", "login"], { env: { HOME: join(tool.work, "hosted") }, stdin: "\n" });
    expect(login).toMatchObject({ code: 1, stderr: expect.stringContaining("must not be empty") });
    expect(login.stdout).toMatch(/^Create an API Key: https:\S+\/keys\?new_key=true&key_name=tinker-cli-\S*\s/);
  });

  it("a stored key is sent to its own server alone", async () => {
    const asked: unknown[] = [];
    const other = createServer((request, response) => {
      asked.push(request.headers["x-api-key"]);
      response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    try {
      for (const [name, record, owner] of [
        ["theirs", { origin: keyed.url }, keyed.url],
        ["official", {}, "https://tinker.thinkingmachines.dev"], // without an origin: the official tool's
      ] as const) {
        const HOME = storedHome(name, record);
        const calls = [
          ["run", "list"],
          ["auth", "status"],
          ["auth", "logout"],
        ];
        const ended = await Promise.all(
          calls.map((words) => tool.run([...words, "--base-url", url], { env: { HOME } })),
        );
        for (const { code, stderr } of ended.slice(0, 2)) {
          expect(code).toBe(1);
          expect(stderr).toContain(`The stored API key belongs to ${owner} and is not sent to ${url}.`);
          expect(stderr).toContain(`tinklet auth login --base-url ${url}`);
        }
        expect(ended[2]).toMatchObject({ code: 1, stderr: expect.stringContaining(`is stored for ${url}`) });
        expect(readFileSync(credentials(HOME), "utf8")).toContain("tml-stored");
      }
      expect(asked).toEqual([]);
      const HOME = storedHome("explicit");
      await tool.run(["run", "list", "--base-url", url], { env: { HOME, TINKER_API_KEY: "tml-explicit" } });
      expect([...new Set(asked)]).toEqual(["tml-explicit"]);
    } finally {
      other.close();
    }
  });

  it("a server that says the key back, or sets the terminal's title, is shown without either", async () => {
    const echoing = createServer((request, response) => {
      const detail = `no ${request.headers["x-api-key"]}\u001b]0;mine\u0007`;
      response.writeHead(401, { "content-type": "application/json" }).end(JSON.stringify({ detail }));
    });
    await new Promise<void>((resolve) => echoing.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(echoing.address() as AddressInfo).port}`;
    const HOME = storedHome("echoed", { type: "generated", origin: url, key: "tml-secret-key" });
    const fresh = join(tool.work, "echoed-login");
    try {
      for (const [words, options] of [
        [["auth", "login"], { env: { HOME: fresh }, stdin: "tml-secret-key\n" }],
        [["run", "list"], { env: { HOME } }],
        [["run", "list"], { env: { HOME: fresh, TINKER_CREDENTIAL_CMD: "echo tml-secret-key" } }],
        [["auth", "logout"], { env: { HOME } }],
      ] as const) {
        const { code, stderr } = await tool.run([...words, "--base-url", url], options);
        expect(code).toBe(1);
        expect(stderr).toContain("no [redacted]\\u001b]0;mine\\u0007");
      }
    } finally {
      echoing.close();
    }
  });

  it("a file that is none is said to be so without being shown, and the environment goes before it", async () => {
    const HOME = storedHome("broken");
    writeFileSync(credentials(HOME), '{"keys": {"7": {"key": "tml-hidden" ');
    const ended = await tool.run(["run", "list"], { env: { HOME, TINKER_BASE_URL: server.url } });
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/credentials\.json is not JSON\.\nHint: /) });
    expect(ended.stderr).not.toContain("hidden");
    expect(await tool.run(["run", "list"], { env: { ...env, HOME } })).toMatchObject({ code: 0 });
  });

  it("a key that was made for this machine is deleted on the server; where that fails, where to do it is said", async () => {
    const url = "http://127.0.0.1:9";
    const HOME = storedHome("generated", { type: "generated", origin: url });
    const at = { HOME, TINKER_BASE_URL: url };
    const ended = await tool.run(["auth", "logout"], { env: at });
    expect(ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Could not delete the API key on the server: [\s\S]*API key ID: 7\n/),
    });
    expect(ended.stderr).not.toContain("tml-stored");
    expect(JSON.parse(readFileSync(credentials(HOME), "utf8"))).toEqual({ version: 1, keys: {} });
  });
});

describe("serve with keys", () => {
  it("names whose keys it takes, and no key that it would refuse", async () => {
    file("team.keys", `ann sha256:${hashApiKey("tml-ann")}\nben sha256:${hashApiKey("tml-ben")}\n`);
    const args = ["serve", "--port", "0", "--api-keys", "team.keys", "--data-dir", join(tool.work, "team")];
    const running = tool.start(args, { stdin: null });
    await running.line((line) => line.startsWith("Serving "));
    running.child.kill("SIGINT");
    const { stderr } = await running.ended;
    expect(stderr).toMatch(/TINKER_API_KEY=… {3}# the key of ann, ben, from whose hash team\.keys was made/);
    expect(stderr).not.toContain("tml-");
  });
});

describe("sample --prompt-file and --output", () => {
  const sample = (...args: string[]) => tool.run(["sample", ...args, ...sampling], { env });
  const place = (name: string) => join(tool.work, name);

  it("a text file is the prompt of the argument; an array of token ids is sent as it is", async () => {
    writeFileSync(place("prompt.txt"), "Once upon\n");
    const byArgument = JSON.parse((await sample("Once upon", "--json")).stdout);
    expect(JSON.parse((await sample("--prompt-file", "prompt.txt", "--json")).stdout)).toEqual(byArgument);
    writeFileSync(place("ids.json"), " [1, 2,\n3]\n");
    const byIds = await sample("--prompt-file", "ids.json", "--json");
    expect(byIds.code, byIds.stderr).toBe(0);
    expect(JSON.parse(byIds.stdout)).toMatchObject({ prompt_tokens: [1, 2, 3], samples: [{ tokens: 4 }] });
    writeFileSync(place("odd.txt"), "[1,,2]");
    expect(JSON.parse((await sample("--prompt-file", "odd.txt", "--json")).stdout)).toMatchObject({ prompt: "[1,,2]" });
  });

  it("--output writes what would be printed, in both formats, and prints nothing", async () => {
    for (const [count, format] of [
      ["1", []],
      ["2", []],
      ["2", ["--json"]],
    ] as const) {
      const args = ["Once upon", "--num-samples", count, ...format];
      const printed = await sample(...args);
      const kept = await sample(...args, "--output", "out.txt");
      expect(kept).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("Wrote out.txt") });
      expect(readFileSync(place("out.txt"), "utf8")).toBe(printed.stdout);
    }
  });

  it("names what is wrong with the file", async () => {
    writeFileSync(place("ids.json"), "[1, 2]");
    expect(await sample("--prompt-file", "nowhere.txt")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Cannot read the file of --prompt-file, nowhere\.txt \(ENOENT\)/),
    });
    expect(await sample("Hi", "--prompt-file", "ids.json")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("give PROMPT or --prompt-file, not both"),
    });
    expect(await sample("--prompt-file", "ids.json", "--chat")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--chat needs a text, but ids.json has token ids"),
    });
    const closed = await sample("Hi", "--output", join("no", "such", "folder", "x"));
    expect(closed.code).toBe(1);
    expect(closed.stderr).toContain(join("no", "such", "folder", "x"));
  });
});

describe("sample from a folder with an adapter", () => {
  it("takes what train and checkpoint download wrote, on a local server and over the wire, and says what is wrong", async () => {
    const folder = join("q-pipe", "adapter"); // the quickstart's of the table
    const text = ["--max-tokens", "6", "--seed", "1", "--json"];
    const written = async (...args: string[]) => {
      const { code, stdout, stderr } = await tool.run(["sample", "Hi", ...args, ...text]);
      expect(code, stderr).toBe(0);
      return JSON.parse(stdout) as { model: string; samples: object[] };
    };
    const here = await written(...local("q", "pipe"), "--from", "q-pipe");
    const imported = await written("--local", "--data-dir", join(tool.work, "fresh"), "--from", folder);
    expect(imported.model).toMatch(/sampler_weights\/adapter$/);
    expect(imported.samples).toEqual(here.samples);
    const base = await written("--local", "--data-dir", join(tool.work, "fresh"));
    expect(base.samples).not.toEqual(imported.samples);
    // Sampling from a folder again is the same checkpoint again, and no run.
    const fresh = ["--local", "--data-dir", join(tool.work, "fresh")];
    expect((await written(...fresh, "--from", folder)).model).toBe(imported.model);
    expect(JSON.parse((await tool.run(["run", "list", ...fresh, "--json"])).stdout)).toEqual({ runs: [] });
    const kept = JSON.parse((await tool.run(["checkpoint", "list", ...fresh, "--json"])).stdout).checkpoints;
    expect(kept).toMatchObject([{ tinker_path: imported.model, expires_at: expect.any(String) }]);
    expect((await tool.run(["sample", "Hi", ...fresh, "--from", "@latest"])).stderr).toContain(
      "This account has no sampler checkpoint",
    );
    const onward = ["train", "data.jsonl", "--learning-rate", "0.01", "--max-steps", "1", "--no-export"];
    const trained = await tool.run([...onward, ...local("q", "pipe"), "--from", folder, "--out", "onward"]);
    expect(trained, trained.stderr).toMatchObject({ code: 0 });
    mkdirSync(join(tool.work, "half"));
    writeFileSync(
      join(tool.work, "half", "adapter_config.json"),
      readFileSync(join(tool.work, folder, "adapter_config.json")),
    );
    const half = await tool.run(["sample", "Hi", "--local", "--from", "half"]);
    expect(half).toMatchObject({ code: 1, stderr: expect.stringContaining(join("half", "adapter_model.safetensors")) });
    writeFileSync(join(tool.work, "half", "adapter_model.safetensors"), "nonsense");
    const broken = await tool.run(["sample", "Hi", "--local", "--from", "half"]);
    expect(broken).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("The server rejected the adapter in half: "),
    });
  });
});

describe("quickstart", () => {
  it("--rl learns from a reward, in a pipe, as JSON and on a terminal", async () => {
    const short = (mode: Mode) => ["quickstart", "--rl", "--steps", "2", "--out", `rl-${mode}`, ...local("rl", mode)];
    const piped = await tool.run(short("pipe"));
    expect(piped.stderr).toMatch(/At first: \d+ \+ \d+ = /);
    expect(piped.stdout).toMatch(/Right answers rose from 0 % to 0 % in [\s\S]*tinklet sample "What is/);
    expect(piped.code).toBe(0);
    const lines = (await tool.run([...short("json"), "--json"])).stdout.trimEnd().split("\n");
    const values = lines.map((line) => JSON.parse(line));
    expect(values.map(({ type }) => type)).toEqual(["step", "step", "done"]);
    expect(values[2]).toMatchObject({ reward_before: expect.any(Number), run: "rl-json" });
    if (hasPty) expect((await tool.run(short("terminal"), { pty: true })).stdout).toMatch(/step 2\/2 {2}reward 0\.000/);
  });

  it("shows its steps over one another on a terminal, and Ctrl-C ends it with 130", async () => {
    const running = tool.start(["quickstart", "--out", "stopped", ...local("stopped", "pipe")], {
      pty: hasPty,
      stdin: null,
    });
    await running.line((line) => /step 1\/\d+/.test(line));
    if (hasPty) running.child.stdin.write("\x03");
    else running.child.kill("SIGINT");
    expect((await running.ended).code).toBe(130);
  });
});

describe("checkpoint push-hf", () => {
  const push = (...more: string[]) => tool.run(["checkpoint", "push-hf", path(), ...more], { env });

  it("uploads the adapter, large files through the storage, to a repository and a branch named after the checkpoint", async () => {
    const { code, stdout, stderr } = await push("--json");
    expect(code, stderr).toBe(0);
    const { repo_id: repo, revision } = JSON.parse(stdout) as { repo_id: string; revision: string };
    expect(revision).toBe("sampler_weights-final");
    expect(hub.repos.get(repo)?.isPrivate).toBe(true);
    const files = hub.repos.get(repo)?.branches.get(revision) ?? new Map<string, Buffer>();
    expect([...files.keys()].toSorted()).toEqual(["README.md", "adapter_config.json", "adapter_model.safetensors"]);
    await tool.run(["checkpoint", "download", path(), "-o", "compare"], { env });
    const fetched = join(tool.work, "compare", path().replace("tinker://", "").replace(/[/:]/g, "_"));
    expect(files.get("adapter_model.safetensors")).toEqual(readFileSync(join(fetched, "adapter_model.safetensors")));
    expect(JSON.parse(String(files.get("adapter_config.json"))).base_model_name_or_path).toBe(baseModel);
    expect(String(files.get("README.md"))).toContain(path());
    expect(hub.log.some((line) => line.endsWith(`${repo}.git/info/lfs/objects/batch`))).toBe(true);
  });

  it("--public, --revision, --commit-message, --create-pr and patterns do what the official tool's do", async () => {
    const options = [
      "--public",
      "--revision",
      "dev",
      "--commit-message",
      "Mine",
      "--ignore-pattern",
      "*.md",
      "--no-model-card",
    ];
    expect((await push("--repo", "else/where", ...options)).code).toBe(0);
    expect(hub.repos.get("else/where")?.isPrivate).toBe(false);
    expect(hub.commits.at(-1)).toEqual({ repo: "else/where", branch: "dev", summary: "Mine", pr: false });
    expect([...(hub.repos.get("else/where")?.branches.get("dev")?.keys() ?? [])]).not.toContain("README.md");
    expect((await push("--repo", "else/where", "--create-pr", "--public")).code).toBe(0);
    expect(hub.commits.at(-1)).toMatchObject({ branch: "main", pr: true });
    expect(hub.repos.get("else/where")?.branches.get("main")?.size).toBe(0);
  });

  it("does not show to everybody what nobody said is public, and says how it is", async () => {
    hub.repos.set("someone/open", { isPrivate: false, branches: new Map([["main", new Map()]]) });
    const before = hub.commits.length;
    expect(await push("--repo", "open")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/The repository someone\/open exists and is public\.\nHint: Add --public/),
    });
    expect(hub.commits.length).toBe(before);
    expect((await push("--repo", "open", "--public")).stdout).toMatch(/Public +Yes/);
    await push("--repo", "closed");
    expect(JSON.parse((await push("--repo", "closed", "--public", "--json")).stdout).public).toBe(false);
  });

  it("gives its token to the Hub alone, also where large files are confirmed elsewhere", async () => {
    hub.verifyElsewhere = true;
    await expect(push("--repo", "confirmed")).resolves.toMatchObject({ code: 0 });
    hub.verifyElsewhere = false;
  });

  it("refuses a repository that holds another checkpoint, a wrong token, none, and a storage that fails", async () => {
    await push("--repo", "taken");
    hub.repos.get("someone/taken")?.branches.get("main")?.set("README.md", Buffer.from("tinker://other/weights/x\n"));
    expect((await push("--repo", "taken")).stderr).toMatch(
      /different Tinker checkpoint.\nHint: Found tinker:\/\/other/,
    );
    const wrong = await tool.run(["checkpoint", "push-hf", path()], { env: { ...env, HF_TOKEN: "hf_wrong" } });
    expect(wrong).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Invalid user token.\nHint: .*hf auth login/),
    });
    expect(wrong.stderr).not.toContain("hf_wrong");
    const none = await tool.run(["checkpoint", "push-hf", path()], { env: { ...env, HF_TOKEN: "" } });
    expect(none).toMatchObject({
      code: 1,
      stderr: "Error: Not logged in\nHint: Run: hf auth login, or set HF_TOKEN.\n",
    });
  });
});
