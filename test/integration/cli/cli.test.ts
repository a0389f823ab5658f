// The command line through its real executable: calls, results, the official tool's commands, and everything that goes wrong.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { Datum, ModelInput, ServiceClient } from "../../../packages/sdk/src/index.ts";
import { baseModel, Executable, fakeServer, hasPty, tokenizer } from "./executable.ts";

vi.setConfig({ testTimeout: 120_000 }); // many processes: a busy machine is no failure
let tool: Executable;
let server: Awaited<ReturnType<typeof fakeServer>>;
let runId: string;
let sessionId: string;
let env: Record<string, string>;

beforeAll(async () => {
  [tool, server] = await Promise.all([Executable.build(), fakeServer()]);
  env = { TINKER_BASE_URL: server.url, TINKER_API_KEY: "tml-test" };
  const service = new ServiceClient({ baseUrl: server.url, apiKey: "tml-test", telemetry: false });
  const trainer = await service.createLoraTrainingClient({
    name: "cli-run",
    baseModel,
    rank: 4,
    seed: 1,
    userMetadata: { note: "cli" },
  });
  const datum = new Datum({
    modelInput: ModelInput.fromInts([1, 2, 3]),
    lossFnInputs: { target_tokens: [2, 3, 4], weights: [1, 1, 1] },
  });
  await trainer.step([datum], "cross_entropy", {});
  await trainer.saveState("one");
  await trainer.saveWeightsForSampler("one");
  await trainer.saveWeightsForSampler("two");
  runId = trainer.modelId;
  sessionId = service.sessionId as string;
  await service.close();
}, 60_000);
afterAll(async () => {
  await server?.close();
  tool?.remove();
});

const run = (...args: string[]) => tool.run(args, { env });
const json = async (...args: string[]) => {
  const { code, stdout, stderr } = await run("-f", "json", ...args);
  expect(stderr).toBe("");
  expect(code).toBe(0);
  return JSON.parse(stdout);
};
const file = (name: string, text: string) => {
  const path = join(tool.work, name);
  writeFileSync(path, text);
  return path;
};

describe("calling it", () => {
  it("prints version and help without a key or a server", async () => {
    expect(await tool.run(["version"])).toEqual({ code: 0, stdout: "tinklet 0.1.0\n", stderr: "" });
    const help = await tool.run(["--help"]);
    expect(help.code).toBe(0);
    expect(help.stdout).toMatch(/checkpoint push-hf .*\n/);
    const own = await tool.run(["checkpoint", "set-ttl", "-h"]);
    expect(own.stdout).toMatch(/--ttl SECONDS .*\n.*--remove/);
    expect((await tool.run(["checkpoint", "--help"])).stdout).not.toContain("run list");
  });

  it.each(["-v", "-V", "--version"])("%s prints the version", async (option) => {
    expect(await tool.run([option])).toEqual({ code: 0, stdout: "tinklet 0.1.0\n", stderr: "" });
  });

  it("without arguments it says what it is and what to type, and help is --help", async () => {
    const first = await tool.run([]);
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toMatch(/^tinklet 0\.1\.0: fine-tune language models, /);
    for (const [, command = ""] of first.stdout.matchAll(/^ {2}npx tinklet (\w+)/gm))
      expect((await tool.run(["help", command])).stdout).toContain(`Usage: tinklet ${command}`);
    expect((await tool.run(["help"])).stdout).toBe((await tool.run(["--help"])).stdout);
  });

  it.each([
    ["a GGUF file", ["chat", "--local", "--from", "x.gguf"], 2, "a GGUF file is a model: --model x.gguf"],
    ["a folder that does not exist", ["chat", "--from", "runs/nope"], 1, "There is no folder runs/nope."],
    ["the same, with a name", ["chat", "--from", "runs/nope:final"], 1, "There is no folder runs/nope."],
  ])("%s is refused with the fix", async (_, args, code, message) => {
    file("x.gguf", "GGUF");
    const ended = await tool.run(args, { env });
    expect(ended.stderr).toContain(message);
    expect(ended.code).toBe(code);
  });

  it.each([
    [["trane"], "Did you mean train?"],
    [["run", "lits"], "Did you mean run list?"],
    [["checkpoint"], "needs one of: list, info"],
    [["run", "info"], "RUN is missing"],
    [["run", "info", "a", "b"], '"b" is one argument too many'],
    [
      ["sample", "x", "-t", "-1"],
      "--temperature needs a value; write a value that begins with a dash as --temperature=-1",
    ],
    [["run", "list", "--nope"], "Unknown option '--nope'"],
    [["run", "list", "--limt", "3"], "Unknown option '--limt'. Did you mean --limit?\n"],
    [["train", "x", "--epoch", "3"], "Did you mean --epochs?"],
    [["run", "list", "--limit", "x"], '--limit must be a whole number from 0 on, not "x"'],
    [
      ["inspect", "x", "--local", "--model", "tinklet/bsae"],
      "unknown model tinklet/bsae; the bundled model is tinklet/base",
    ],
    [["run", "list", "--base-url", "nowhere"], '--base-url "nowhere" is not a URL'],
    [["billing", "usage", "yesterday", "today"], "STARTING_ON must be a timestamp"],
    [["run", "list", "-f", "xml"], "--format must be one of table, json"],
    [["run", "list", "-c", "id,who"], "Unknown column(s): who"],
    [["completions", "tcsh"], "one of bash, zsh, fish"],
  ])("%j is a wrong call: exit code 2", async (args, message) => {
    const { code, stderr } = await tool.run(args, { env });
    expect(stderr).toContain(message);
    expect(stderr).not.toContain("    at ");
    expect(code).toBe(2);
  });

  it("takes --format before and after the command", async () => {
    const before = await run("-f", "json", "run", "list");
    const after = await run("run", "list", "--format=json");
    const short = await run("run", "list", "--json");
    expect(JSON.parse(before.stdout)).toEqual(JSON.parse(after.stdout));
    expect(after.stdout).toBe(short.stdout);
  });

  it("writes completions that their shells accept", async () => {
    const { stdout } = await tool.run(["completions", "bash"]);
    const asked = `${stdout}\nCOMP_WORDS=(tinklet checkpoint pu); COMP_CWORD=2; _tinklet; echo "\${COMPREPLY[*]}"`;
    expect(spawnSync("bash", ["-c", asked], { encoding: "utf8" }).stdout).toBe("publish push-hf\n");
    const flags = `${stdout}\nCOMP_WORDS=(tinklet checkpoint set-ttl --re); COMP_CWORD=3; _tinklet; echo "\${COMPREPLY[*]}"`;
    expect(spawnSync("bash", ["-c", flags], { encoding: "utf8" }).stdout).toBe("--remove\n");
    // A command by itself, and the first word of another.
    const both = (words: string, at: number) =>
      spawnSync(
        "bash",
        ["-c", `${stdout}\nCOMP_WORDS=(${words}); COMP_CWORD=${at}; _tinklet; echo "\${COMPREPLY[*]}"`],
        {
          encoding: "utf8",
        },
      ).stdout;
    expect(both("tinklet data p", 2)).toBe("prune\n");
    expect(both("tinklet data --js", 2)).toBe("--json\n");
    expect(both("tinklet data prune --lo", 3)).toBe("--local --lost\n");
    expect((await tool.run(["completions", "zsh"])).stdout).toMatch(/^#compdef tinklet/);
    expect((await tool.run(["completions", "fish"])).stdout).toContain(
      "complete -c tinklet -n __fish_use_subcommand -a train",
    );
  });
});

describe("the official tool's commands", () => {
  it("run list and run info", async () => {
    const { runs } = await json("run", "list", "--limit", "0");
    expect(runs[0]).toMatchObject({
      training_run_id: runId,
      base_model: baseModel,
      is_lora: true,
      lora_rank: 4,
      corrupted: false,
    });
    expect(runs[0].last_request_time).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?\+00:00$/);
    const table = (await run("run", "list")).stdout.split("\n");
    expect(table[0]).toMatch(/^\d+ training runs?$/);
    expect(table[1]).toMatch(/^Name\s+Base Model\s+LoRA\s+Last Update\s+Status$/);
    expect(table[2]).toMatch(/^cli-run\s+test\/model\s+Rank 4\s+just now\s+OK$/);
    expect((await run("run", "list", "-c", "lora,id")).stdout).toMatch(/\nLoRA\s+Run ID\n/);
    expect(await json("run", "info", runId)).toEqual(runs[0]);
    expect(await json("run", "info", "cli-run")).toEqual(runs[0]);
    expect((await run("run", "info", runId)).stdout).toMatch(/\nMetadata\s*\n {2}- note\s+cli\n {2}- name\s+cli-run\n/);
  });

  it("checkpoint list, info and short references", async () => {
    const { checkpoints, run_id } = await json("checkpoint", "list", "--run-id", runId);
    expect(run_id).toBe(runId);
    expect(checkpoints.map((one: { checkpoint_id: string }) => one.checkpoint_id).toSorted()).toEqual([
      "sampler_weights/one",
      "sampler_weights/two",
      "weights/one",
    ]);
    expect((await run("checkpoint", "list", "--limit", "2")).stdout).toMatch(
      /^\d checkpoints?( with 2 files)? \(\d+ more not shown, use --limit to see more\)\nCheckpoint +Files +Size/,
    );
    const whole = await json("checkpoint", "info", `tinker://${runId}/sampler_weights/two`);
    expect(whole).toMatchObject({ is_lora: true, lora_rank: 4, public: false, expires_at: null });
    for (const short of [`${runId}:two`, runId, "@latest", "cli-run", "cli-run@two", "cli-run:two"])
      expect(await json("checkpoint", "info", short)).toEqual(whole);
    const wrong = await run("checkpoint", "info", `${runId}:three`);
    expect(wrong).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/no sampler checkpoint "three".*\nHint: It has: .*two/),
    });
    expect((await run("checkpoint", "info", "nothing")).stderr).toContain(
      '"nothing" is neither a run folder nor the name or id of a run',
    );
  });

  it("one row per checkpoint and per resumed run, and names wherever ids are accepted", async () => {
    const named = await fakeServer();
    onTestFinished(() => named.close());
    const service = new ServiceClient({ baseUrl: named.url, apiKey: "tml-names", telemetry: false });
    const first = await service.createLoraTrainingClient({ name: "bike", baseModel, rank: 4 });
    const { path } = await first.saveState("000020");
    await first.saveWeightsForSampler("000020");
    const userMetadata = { name: "bike", resumed_from: path };
    const second = await service.createTrainingClientFromStateWithOptimizer(path, { userMetadata });
    await second.saveState("final");
    await second.saveWeightsForSampler("final");
    await service.close();
    const own = (...args: string[]) => tool.run(args, { env: { ...env, TINKER_BASE_URL: named.url } });
    const { stdout: runs } = await own("run", "list");
    expect(runs.split("\n")[0]).toBe("1 training run");
    const { stdout: list } = await own("checkpoint", "list");
    expect(list).toMatch(
      /^2 checkpoints with 4 files\nCheckpoint[^\n]*\nbike@final +(training|sampler) \+ [^\n]*\nbike@step-20 /,
    );
    expect((await own("checkpoint", "list", "--run-id", "bike")).stdout).toContain("bike@step-20");
    expect((await own("checkpoint", "info", "bike@step-20")).stdout).toMatch(/\/sampler_weights\/000020/);
    const texts = await own("sample", "1 2", "--from", "bike@step-20", "--max-tokens", "2", "--tokenizer", tokenizer);
    expect(texts).toMatchObject({ code: 0, stderr: "" });
    expect((await own("checkpoint", "info", "bike@step-21")).stderr).toMatch(
      /Run bike has no sampler checkpoint "step-21".*\n.*It has: step-20, final/,
    );
    expect((await run("checkpoint", "info", "bike")).stderr).toContain(
      '"bike" is neither a run folder nor the name or id of a run',
    );
    expect((await own("checkpoint", "info", "bikee")).stderr).toMatch(
      /"bikee" is neither a run folder nor the name or id of a run\. Did you mean bike\?/,
    );
    expect((await own("checkpoint", "info", "bike.gguf")).stderr).toMatch(/A GGUF file is a base model.*--model/);
    expect((await own("checkpoint", "delete", "bike@step-20", "-y")).stdout).toBe("Deleted 2 checkpoint(s)\n");
    expect((await own("run", "delete", "bike", "-y")).stdout.trim().split("\n")).toHaveLength(2);
    expect((await own("run", "list")).stdout).toBe("No training runs found\n");
  });

  it("checkpoint publish, unpublish and set-ttl say what they did, to one half by its path and to both by a name", async () => {
    const [path, state] = [`tinker://${runId}/sampler_weights/one`, `tinker://${runId}/weights/one`];
    expect(await run("checkpoint", "publish", path)).toMatchObject({ stdout: `Published:\nPath\n${path}\n` });
    expect((await json("checkpoint", "info", path)).public).toBe(true);
    expect((await json("checkpoint", "info", state)).public).toBe(false);
    const { checkpoints } = await json("checkpoint", "publish", `${runId}:one`);
    expect(checkpoints.map((one: { tinker_path: string }) => one.tinker_path).toSorted()).toEqual([path, state]);
    expect((await json("checkpoint", "info", state)).public).toBe(true);
    expect((await run("checkpoint", "unpublish", `${runId}:one`)).stdout).toMatch(/^Made private:\n/);
    expect((await run("checkpoint", "set-ttl", `${runId}:one`, "--ttl", "90000")).stdout).toMatch(/^Kept until \d{4}-/);
    for (const half of [path, state])
      expect((await run("checkpoint", "info", half)).stdout).toMatch(/Expires\s+in 1 day\n/);
    expect((await run("checkpoint", "set-ttl", `${runId}:one`, "--remove")).stdout).toMatch(/^Kept without a limit:\n/);
    for (const half of [path, state])
      expect(await json("checkpoint", "info", half)).toMatchObject({ public: false, expires_at: null });
  });

  it("checkpoint info shows what somebody else has published", async () => {
    const { hashApiKey } = await import("../../../packages/server/src/index.ts");
    const apiKeys = ["ann", "ben"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) }));
    const shared = await fakeServer({ apiKeys });
    try {
      const service = new ServiceClient({ baseUrl: shared.url, apiKey: "tml-ann", telemetry: false });
      const trainer = await service.createLoraTrainingClient({ baseModel, rank: 4 });
      const { path } = await trainer.saveWeightsForSampler("shown");
      const info = () =>
        tool.run(["checkpoint", "info", path, "--json"], {
          env: { TINKER_BASE_URL: shared.url, TINKER_API_KEY: "tml-ben" },
        });
      const hidden = await info();
      expect(hidden).toMatchObject({ code: 1, stderr: expect.stringContaining(`Checkpoint not found: ${path}`) });
      expect(hidden.stderr).toMatch(
        /Hint: .*belong to another account that has not published it: npx tinklet checkpoint list/,
      );
      await service.createRestClient().publishCheckpointFromTinkerPath(path);
      const { code, stdout, stderr } = await info();
      expect(code, stderr).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ tinker_path: path, public: true, lora_rank: 4 });
      await service.close();
    } finally {
      await shared.close();
    }
  });

  it("checkpoint download unpacks an adapter, once", async () => {
    const out = join(tool.work, "models");
    const done = await json("checkpoint", "download", `${runId}:two`, "-o", out);
    expect(done.destination).toBe(join(out, `${runId.replaceAll(":", "_")}_sampler_weights_two`)); // no colon on Windows
    expect(existsSync(join(done.destination, "adapter_config.json"))).toBe(true);
    const again = await run("checkpoint", "download", `${runId}:two`, "-o", out);
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("Target directory already exists") });
    expect((await run("checkpoint", "download", `${runId}:two`, "-o", out, "--force")).stdout).toContain(
      "Extracted to",
    );
  });

  it("downloading the training half of a checkpoint leaves no run behind", async () => {
    const runs = async () => (await json("run", "list", "--limit", "0")).runs.length;
    const before = await runs();
    const out = join(tool.work, "halves");
    const { destination } = await json("checkpoint", "download", `tinker://${runId}/weights/one`, "-o", out);
    expect(existsSync(join(destination, "adapter_model.safetensors"))).toBe(true);
    expect(await runs()).toBe(before);
  });

  it("checkpoint delete asks, filters and reports", async () => {
    const path = `tinker://${runId}/weights/one`;
    for (const [wrong, message] of [
      [[], "Must specify checkpoint paths or --run-id"],
      [[path, "--type", "weights"], "require --run-id"],
      [[path, "--run-id", runId], "Cannot specify both"],
      [["--run-id", runId, "--before", "yesterday", "-y"], "Invalid date: yesterday"],
      [["--run-id", runId, "--type", "shoes", "-y"], "Invalid checkpoint type: shoes"],
    ] as const) {
      const { code, stderr } = await run("checkpoint", "delete", ...wrong);
      expect(stderr).toContain(message);
      expect(code).toBe(2);
    }
    expect((await run("checkpoint", "delete", path)).stdout).toBe("Deletion cancelled.\n"); // the end of stdin is a no
    const cancelled = await run("checkpoint", "delete", path, "--json");
    expect(JSON.parse(cancelled.stdout)).toEqual({ deleted_count: 0, failed: [] });
    const old = ["checkpoint", "delete", "--run-id", runId, "--before", "2020-01-01", "-y"];
    const none = await run(...old);
    expect(none).toMatchObject({ code: 0, stdout: `No checkpoints found for run ${runId} matching filters\n` });
    expect(await json(...old)).toEqual({ deleted_count: 0, failed: [] });
    const deleted = await tool.run(["checkpoint", "delete", "--run-id", runId, "--type", "weights"], {
      env,
      stdin: "y\n",
    });
    expect(deleted).toMatchObject({ code: 0, stdout: "Deleted 1 checkpoint(s)\n" });
    const gone = await run("-f", "json", "checkpoint", "delete", path, "-y");
    expect(JSON.parse(gone.stdout)).toMatchObject({ deleted_count: 0, failed: [{ tinker_path: path }] });
    expect(gone.code).toBe(1);
    const [first, second] = ["three", "four"].map((name) => `tinker://${runId}/weights/${name}`);
    expect(await run("checkpoint", "delete", first as string, second as string, "-y")).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("Failed to delete 2 checkpoint(s):"),
    });
  });

  it("checkpoint delete of a short name deletes both halves, and asks about both", async () => {
    const service = new ServiceClient({ baseUrl: server.url, apiKey: "tml-test", telemetry: false });
    const trainer = await service.createLoraTrainingClient({ baseModel, rank: 4, seed: 1 });
    for (const name of ["old", "new"]) {
      await trainer.saveState(name);
      await trainer.saveWeightsForSampler(name);
    }
    await service.close();
    const left = async () =>
      (await json("checkpoint", "list", "--run-id", trainer.modelId)).checkpoints
        .map((one: { checkpoint_id: string }) => one.checkpoint_id)
        .toSorted();
    const asked = await run("checkpoint", "delete", `${trainer.modelId}:old`);
    expect(asked.stderr).toMatch(/Will delete 2 checkpoint\(s\):\n.*weights\/old\n.*weights\/old\n/);
    expect((await run("checkpoint", "delete", `${trainer.modelId}:old`, "-y")).stdout).toBe(
      "Deleted 2 checkpoint(s)\n",
    );
    expect(await left()).toEqual(["sampler_weights/new", "weights/new"]);
    expect(await json("checkpoint", "delete", trainer.modelId, "-y")).toEqual({ deleted_count: 2, failed: [] });
    expect(await left()).toEqual([]);
  });

  it("session list, info and export-trace", async () => {
    const { sessions } = await json("session", "list", "--limit", "0");
    expect(sessions).toContainEqual({
      session_id: sessionId,
      training_run_ids: [runId],
      sampler_ids: [],
      base_model: baseModel,
      last_request_time: expect.stringMatching(/^\d{4}-/),
    });
    expect((await run("session", "list")).stdout).toMatch(
      new RegExp(`Session ID +Runs +Samplers +Base Model +Last Update\\n[\\s\\S]*${sessionId} +1 +0 +test/model`),
    );
    expect((await json("session", "info", sessionId)).training_run_ids).toEqual([runId]);
    const trace = join(tool.work, "t.pftrace");
    expect(await json("session", "export-trace", sessionId, "-o", trace)).toMatchObject({ destination: trace });
    expect(readFileSync(trace).length).toBeGreaterThan(0);
    expect((await run("session", "export-trace", sessionId, "--url-only")).stdout).toMatch(/^http:\/\/\S+\n$/);
  });

  it("billing usage as table, JSON and CSV", async () => {
    const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000);
    const span = [hour.toISOString(), new Date(hour.getTime() + 7_200_000).toISOString()];
    const { data, sessions } = await json("billing", "usage", ...span);
    expect(data[0]).toMatchObject({ base_model: baseModel, event_info: { type: expect.any(String) } });
    expect(data.map((row: { session_id: string }) => row.session_id)).toContain(sessionId);
    expect(sessions).toBeTypeOf("object");
    const csv = (await run("billing", "usage", ...span, "--csv", "-")).stdout.split("\r\n");
    expect(csv[0]).toMatch(/^bucket_start,bucket_end,base_model,user_id,user_name,session_id,project_id,type/);
    expect(csv.length).toBe(data.length + 2);
    expect((await run("billing", "usage", "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")).stdout).toBe(
      "No billing usage in this window\n",
    );
  });
});

describe("what goes wrong", () => {
  it("a dead server", async () => {
    const dead = await tool.run(["run", "list"], { env: { ...env, TINKER_BASE_URL: "http://127.0.0.1:9" } });
    expect(dead.code).toBe(1);
    expect(dead.stderr).toMatch(/^Error: Connection failed\nDetails: /m);
    expect(dead.stderr).not.toContain("    at ");
    expect(dead.stderr).toContain("(--base-url, TINKER_BASE_URL)");
    const wrong = await tool.run(["run", "list"], { env: { ...env, TINKER_BASE_URL: "localhost:9" } });
    expect(wrong).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Error: TINKER_BASE_URL: must begin with http/),
    });
  }, 60_000);

  it("a wrong key, and none at all", async () => {
    const { hashApiKey } = await import("../../../packages/server/src/index.ts");
    const keyed = await fakeServer({ apiKeys: [{ name: "me", sha256: hashApiKey("tml-right") }] });
    try {
      const wrong = await tool.run(["run", "list", "--api-key", "tml-wrong"], { env: { TINKER_BASE_URL: keyed.url } });
      expect(wrong).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^Error: Authentication failed\nDetails: .*\nHint: /m),
      });
      expect(wrong.stderr).not.toContain("tml-wrong");
      const right = await tool.run(["run", "list", "--api-key", "tml-right"], { env: { TINKER_BASE_URL: keyed.url } });
      expect(right).toMatchObject({ code: 0, stdout: "No training runs found\n" });
      expect(right.stderr).toMatch(/^Warning: --api-key shows the key .*use TINKER_API_KEY or --api-key-file\.\n$/);
      const keyFile = join(tool.work, "key");
      writeFileSync(keyFile, " tml-right \nand more\n");
      for (const [file, stdin] of [
        [keyFile, ""],
        ["-", "tml-right\n"],
      ] as const) {
        const at = { env: { TINKER_BASE_URL: keyed.url }, stdin };
        const read = await tool.run(["--api-key-file", file, "run", "list"], at);
        expect(read).toMatchObject({ code: 0, stdout: "No training runs found\n", stderr: "" });
      }
      for (const [args, said] of [
        [["--api-key-file", join(tool.work, "nope")], /there is no file .*nope/],
        [["--api-key-file", "-"], /no key in the first line of the input/],
        [["--api-key-file", keyFile, "--api-key", "tml-x"], /exclude each other/],
      ] as const) {
        const refused = await tool.run(["run", "list", ...args], { env: { TINKER_BASE_URL: keyed.url } });
        expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(said) });
      }
    } finally {
      await keyed.close();
    }
    const none = await tool.run(["run", "list"], { env: { TINKER_BASE_URL: server.url } });
    expect(none).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/TINKER_API_KEY or pass --api-key-file .*use --local/),
    });
  });

  it("a run that is not there", async () => {
    expect(await run("run", "info", "nobody")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Error: Resource not found\n/),
    });
    expect(await run("run", "info", "runs/none")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Error: "runs\/none" is neither a folder nor a run\.\nHint: /),
    });
    expect(await json("run", "info", `tinker://${runId}/weights/one`)).toMatchObject({ training_run_id: runId });
  });

  it("a missing file, and a bad line with its number", async () => {
    const model = ["--model", baseModel, "--tokenizer", tokenizer];
    const missing = await run("train", "none.jsonl", ...model, "--learning-rate", "0.01");
    expect(missing).toMatchObject({ code: 1, stderr: "Error: none.jsonl: there is no such file\n" });
    const bad = file("bad.jsonl", '{"text":"fine"}\n{"text":\n');
    for (const command of ["train", "inspect"]) {
      const { code, stderr } = await run(
        command,
        bad,
        ...model,
        ...(command === "train" ? ["--learning-rate", "0.01"] : []),
      );
      expect(code).toBe(1);
      expect(stderr).toContain(`Error: ${bad}:2: is not JSON`);
    }
  });

  it("a full disk", async () => {
    const folder = join(tool.work, "plotted");
    const { mkdirSync } = await import("node:fs");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "metrics.jsonl"), '{"step":0,"train_mean_nll":2}\n{"step":1,"train_mean_nll":1}\n');
    symlinkSync("/dev/full", join(tool.work, "full.svg"));
    const full = await run("plot", folder, "--out", join(tool.work, "full.svg"));
    expect(full.code).toBe(1);
    expect(full.stderr).toMatch(/^Error: The disk is full: /);
  });
});

describe("looking at data and runs", () => {
  const data = '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ahoy"}]}\n';

  it("inspect shows what is learned, in text, JSON and HTML", async () => {
    const path = file("chat.jsonl", data + data);
    const model = ["--model", baseModel, "--tokenizer", tokenizer];
    const { stdout } = await tool.run(["inspect", path, ...model]);
    expect(stdout).toContain("⟦Ahoy<|im_end|>⟧");
    expect(stdout).toMatch(/Repeated\s+1 \(line 2\)/);
    const found = JSON.parse((await tool.run(["inspect", path, ...model, "--json", "--max-length", "4"])).stdout);
    expect(found).toMatchObject({ examples: 2, truncated: [1, 2], dropped: [1, 2], duplicates: [[2, 1]] });
    expect(found).toMatchObject({ loss_tokens: 0, masked_share: 1 });
    const page = join(tool.work, "page.html");
    await tool.run(["inspect", path, ...model, "--out", page]);
    expect(readFileSync(page, "utf8")).toContain('<span class="on" title="2 · weight 1">&lt;|im_end|&gt;</span>');
  });

  it("plot draws in the terminal and writes SVG and HTML; several runs are compared", async () => {
    const { mkdirSync } = await import("node:fs");
    for (const name of ["a", "b"]) {
      mkdirSync(join(tool.work, name), { recursive: true });
      const rows = Array.from({ length: 30 }, (_, step) => ({
        step,
        train_mean_nll: 3 / (step + (name === "a" ? 1 : 2)),
      }));
      file(`${name}/metrics.jsonl`, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    }
    const { stdout } = await tool.run(["plot", "a", "b"]);
    expect(stdout).toMatch(/3 │[⠀-⣿]/);
    expect(stdout).toMatch(/─ a {3}╌ b\n$/);
    for (const kind of ["svg", "html"]) {
      const out = join(tool.work, `loss.${kind}`);
      expect((await tool.run(["plot", "a", "b", "-o", out])).code).toBe(0);
      const head = readFileSync(out).subarray(0, 16).toString("latin1");
      expect(head).toMatch(kind === "svg" ? /^<svg / : /^<!doctype html>/);
    }
    expect((await tool.run(["plot", "a", "-o", "x.png"])).code).toBe(2);
    expect((await tool.run(["plot", "a", "-m", "nope"])).stderr).toContain("There are: train_mean_nll.");
    expect((await tool.run(["plot", tool.work])).stderr).toContain("has no metrics.jsonl");
  });
});

describe.runIf(hasPty)("on a terminal", () => {
  it("colours tables, and not with NO_COLOR", async () => {
    const coloured = await tool.run(["run", "list"], { env, pty: true });
    expect(coloured.stdout).toContain("\x1b[96m");
    const plain = await tool.run(["run", "list"], { env: { ...env, NO_COLOR: "1" }, pty: true });
    expect(plain.stdout).not.toContain("\x1b[");
    expect((await tool.run(["run", "list", "--no-color"], { env, pty: true })).stdout).not.toContain("\x1b[");
  });
});
