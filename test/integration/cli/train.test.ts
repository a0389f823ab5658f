// Training and sampling through the real executable, and what an interruption at any moment leaves behind.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { baseModel, Executable, fakeServer, hasPty, tokenizer } from "./executable.ts";

vi.setConfig({ testTimeout: 120_000 }); // many processes: a busy machine is no failure
let tool: Executable;
let server: Awaited<ReturnType<typeof fakeServer>>;
let env: Record<string, string>;
let data: string;
let slow = false;
/** Calls of the engine wait for it. */
let held: Promise<void> | undefined;
/** Tokens of a sample that is watched wait for it. */
let beforeToken: () => Promise<void> | undefined = () => undefined;

beforeAll(async () => {
  // Calls of the engine that take a moment leave time to interrupt between them.
  const beforeCall = async () => {
    if (slow) await new Promise((resolve) => setTimeout(resolve, 30));
    await held;
  };
  [tool, server] = await Promise.all([
    Executable.build(),
    fakeServer({ beforeCall, beforeToken: () => beforeToken() }),
  ]);
  env = { TINKER_BASE_URL: server.url, TINKER_API_KEY: "tml-test" };
  data = join(tool.work, "data.jsonl");
  const lines = Array.from({ length: 40 }, (_, at) =>
    JSON.stringify({ prompt: `Count to ${at}:`, completion: ` ${at} ${at * 7}` }),
  );
  writeFileSync(data, `${lines.join("\n")}\n`);
}, 60_000);
afterAll(async () => {
  await server?.close();
  tool?.remove();
});

const options = [
  "--batch-size",
  "2",
  "--rank",
  "4",
  "--learning-rate",
  "0.02",
  "--save-every",
  "5",
  "--eval-every",
  "4",
  "--epochs",
  "1",
];
const train = (folder: string, ...more: string[]) => [
  "train",
  data,
  "--model",
  baseModel,
  "--tokenizer",
  tokenizer,
  "--out",
  folder,
  ...options,
  ...more,
];
const read = (folder: string, name: string) => readFileSync(join(tool.work, folder, name), "utf8");
const steps = (folder: string) =>
  read(folder, "metrics.jsonl")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).step as number);

describe("train", () => {
  it("trains, records, exports the adapter, and has nothing to do the second time", async () => {
    slow = false;
    const { code, stdout, stderr } = await tool.run(train("straight"), { env });
    expect(stderr).toMatch(/36 examples to train on, 4 to test on\.\n18 steps \(1 epoch\) of LoRA rank 4/);
    expect(stdout).toContain("Done. tinker://");
    expect(code).toBe(0);
    expect(steps("straight")).toEqual(Array.from({ length: 19 }, (_, step) => step));
    const checkpoints = read("straight", "checkpoints.jsonl")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    const best = checkpoints.find(({ name }) => name === "best");
    expect(checkpoints.filter((one) => one !== best).map(({ name }) => name)).toEqual([
      ...["000005", "000010", "000015", "final"],
    ]);
    const losses = read("straight", "metrics.jsonl").match(/(?<="test\/nll":)[\d.]+/g) ?? [];
    expect(String(best["test/nll"])).toBe(losses.toSorted((a, b) => Number(a) - Number(b))[0]);
    expect(stdout).toMatch(/^Best {6}loss per token/m);
    expect(stdout).toMatch(/Answers to held-out questions:\n {2}Count to \d+:\n {4}before {2}.*\n {4}after {3}/);
    expect(JSON.parse(read("straight", "result.json"))).toMatchObject({
      ...{ metric: "test/nll", before: Number(losses[0]), after: Number(losses.at(-1)) },
      best: { step: best.batch, value: best["test/nll"], checkpoint: "final" },
      answers: [{ question: expect.stringMatching(/^Count to/), before: expect.any(String) }, {}, {}],
    });
    const sampled = await tool.run(["sample", "Hi", "--from", "straight:best", "--tokenizer", tokenizer, "--json"], {
      env,
    });
    expect(JSON.parse(sampled.stdout).model).toBe(best.sampler_path);
    expect(JSON.parse(read("straight", "adapter/adapter_config.json"))).toMatchObject({ r: 4 });
    const again = await tool.run(train("straight"), { env });
    expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining("straight is complete: 18 steps.") });
    // An export that failed is made up for.
    rmSync(join(tool.work, "straight", "adapter"), { recursive: true });
    expect((await tool.run(train("straight"), { env })).code).toBe(0);
    expect(JSON.parse(read("straight", "adapter/adapter_config.json"))).toMatchObject({ r: 4 });
    const other = await tool.run(train("straight", "--seed", "4"), { env });
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining("seed was 0 and is now 4") });
  });

  it("--name names the run and its folder, and is refused if it looks like something else", async () => {
    const named = ["train", data, "--model", baseModel, "--tokenizer", tokenizer, ...options, "--max-steps", "1"];
    slow = false;
    expect((await tool.run([...named, "--name", "bike", "--no-export"], { env })).stderr).toContain(
      "1 step (1 epoch) of LoRA",
    );
    expect(existsSync(join(tool.work, "runs", "bike", "checkpoints.jsonl"))).toBe(true);
    const info = JSON.parse((await tool.run(["run", "info", "bike", "--json"], { env })).stdout);
    expect(info).toMatchObject({ name: "bike", user_metadata: { name: "bike" } });
    for (const [name, problem] of [
      ["Qwen/Qwen3-8B", /--name: looks like a path or a base model: "Qwen\/Qwen3-8B"\.\n.*Use "Qwen-Qwen3-8B"/],
      ["tinker://a/weights/b", /--name: looks like the address of a checkpoint/],
      ["x".repeat(65), /--name: must have at most 64 characters, got 65/],
      ["a\u001bb", /--name: is not a valid name/],
    ] as const) {
      expect(await tool.run([...named, "--name", name], { env })).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(problem),
      });
    }
  });

  it.each<[string, NodeJS.Signals, number]>([
    ["Ctrl-C", "SIGINT", 130],
    ["a crash", "SIGKILL", -1],
  ])(
    "goes on after %s with the metrics of an uninterrupted run, line by line",
    async (_, signal, code) => {
      slow = true;
      const folder = `interrupted-${signal}`;
      const running = tool.start(train(folder, "--json"), { env });
      await running.line((line) => line.startsWith('{"type":"step","step":7,'));
      running.child.kill(signal);
      const ended = await running.ended;
      if (code >= 0) expect(ended.code).toBe(code);
      slow = false;
      const before = steps(folder).length;
      expect(before).toBeLessThan(19);
      const resumed = await tool.run(train(folder), { env });
      expect(resumed).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(/^Resuming .* at step \d+ of 18 from tinker:\/\//),
      });
      expect(read(folder, "metrics.jsonl")).toBe(read("straight", "metrics.jsonl"));
      const runs = JSON.parse((await tool.run(["run", "list", "--json"], { env })).stdout).runs as { name: string }[];
      expect(runs.filter(({ name }) => name === folder)).toHaveLength(2); // one run to the user, two to the server
    },
    60_000,
  );

  it("stops early on a test file, keeps the best weights, and trains no further the second time", async () => {
    slow = false;
    const test = join(tool.work, "test.jsonl");
    writeFileSync(test, '{"prompt":"Other","completion":" words"}\n');
    // A learning rate of nearly zero: no evaluation is better than the first by more than rounding.
    const call = train("early", "--test-file", test, "--stop-early", "2", "--epochs", "3", "--learning-rate", "1e-12");
    const first = await tool.run(call, { env });
    expect(first, first.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining("Stopped early") });
    expect(first.stdout).toContain("the test loss has not fallen in 2 evaluations");
    expect(first.stdout).toMatch(/npx tinklet eval \S+test\.jsonl --from early.* --base/);
    const trained = steps("early").length;
    expect(trained).toBeLessThan(30);
    const again = await tool.run(call, { env });
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining("Stopped early") });
    expect(steps("early").length).toBe(trained);
    const both = await tool.run([...call, "--test-share", "0.1"], { env });
    expect(both).toMatchObject({ code: 2, stderr: expect.stringMatching(/--test-file and --test-share exclude/) });
    const never = await tool.run(train("never", "--stop-early", "2", "--test-share", "0"), { env });
    expect(never).toMatchObject({ code: 2, stderr: expect.stringMatching(/--stop-early needs held-out examples/) });
  });

  it("says before the first step what is wrong with data and learning rate", async () => {
    const repeated = join(tool.work, "repeated.jsonl");
    writeFileSync(repeated, `${'{"prompt":"a","completion":" b"}\n'.repeat(9)}{"prompt":"c","completion":" d"}\n`);
    const call = ["train", repeated, ...train("repeated", "--max-steps", "1", "--test-share", "0").slice(2)];
    const { stderr, code } = await tool.run(call, { env });
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/Notice: 8 of 10 examples \(80 %\) repeat an earlier one/);
  });

  it("dry-run counts and prices, without a model being made", async () => {
    const table = join(tool.work, "prices.json");
    writeFileSync(table, JSON.stringify({ [baseModel]: { prefill: 1, sample: 1, train: 10, asOf: "2026-11-01" } }));
    const { stdout } = await tool.run(train("dry", "--dry-run", "--json", "--prices", table), { env });
    const plan = JSON.parse(stdout);
    expect(plan).toMatchObject({
      train_examples: 36,
      test_examples: 4,
      steps: 18,
      truncated: 0,
      prices_as_of: "2026-11-01",
    });
    expect(plan.cost_usd).toBeCloseTo((plan.tokens_total * 10 + plan.tokens_evaluation) / 1e6, 10);
    expect(plan.masked_share).toBeGreaterThan(0);
    const unknown = await tool.run(train("dry", "--dry-run"), { env });
    expect(unknown.stdout).toContain(`no price known for ${baseModel}`);
    // Its tokenizer is found by its name: there is nothing to ask a server.
    const named = ["--model", tokenizer, "--batch-size", "2", "--learning-rate", "0.02"];
    const keyless = await tool.run(["train", data, ...named, "--dry-run", "--json"], { env: {} });
    expect(keyless, keyless.stderr).toMatchObject({ code: 0 });
    expect(JSON.parse(keyless.stdout)).toMatchObject({ steps: 54 });
  });

  it("stops after a checkpoint before the budget is spent, and goes on with a larger one", async () => {
    const table = join(tool.work, "dear.json");
    writeFileSync(table, JSON.stringify({ [baseModel]: { prefill: 0, sample: 0, train: 1e4, asOf: "2026-11-01" } }));
    const plan = JSON.parse((await tool.run(train("dry", "--dry-run", "--json", "--prices", table), { env })).stdout);
    const budget = plan.cost_usd / 2;
    const stopped = await tool.run(train("budget", "--prices", table, "--max-cost", String(budget)), { env });
    expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining("the next step would make it $") });
    expect(stopped.stdout).toContain("The same command with a larger --max-cost resumes the run.");
    const spent =
      JSON.parse(read("budget", "checkpoints.jsonl").trim().split("\n").at(-1) as string).elapsed_tokens / 100;
    expect(spent).toBeGreaterThan(budget / 3);
    expect(spent).toBeLessThanOrEqual(budget);
    const checkpoints = read("budget", "checkpoints.jsonl");
    const again = await tool.run(train("budget", "--prices", table, "--max-cost", String(budget)), { env });
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining("the next step would make it $") });
    expect(read("budget", "checkpoints.jsonl")).toBe(checkpoints); // asked before anything was trained
    await tool.run(train("budget"), { env });
    expect(read("budget", "metrics.jsonl")).toBe(read("straight", "metrics.jsonl"));
    expect((await tool.run(train("x", "--max-cost", "1"), { env })).code).toBe(2);
  }, 60_000);

  it("goes on with other intervals and more epochs, and begins from a checkpoint with --from", async () => {
    expect((await tool.run(train("longer", "--max-steps", "6"), { env })).code).toBe(0);
    const more = await tool.run(train("longer", "--max-steps", "9", "--save-every", "2"), { env });
    expect(more, more.stderr).toMatchObject({ code: 0, stderr: expect.stringContaining("at step 7 of 9") });
    expect(steps("longer")).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const last = (folder: string) => JSON.parse(read(folder, "checkpoints.jsonl").trim().split("\n").at(-1) as string);
    expect(JSON.parse(read("longer", "adapter.json")).tinker_path).toBe(last("longer").sampler_path);
    const from = (folder: string, ...given: string[]) => tool.run(train(folder, "--max-steps", "3", ...given), { env });
    const next = await from("next", "--from", "longer");
    expect(next, next.stderr).toMatchObject({ code: 0 });
    expect(JSON.parse(read("next", "config.json"))).toMatchObject({ load_checkpoint_path: last("longer").state_path });
    const first = (folder: string) => JSON.parse(read(folder, "metrics.jsonl").split("\n")[0] as string);
    expect(first("next")["test/nll"]).toBeLessThan(first("longer")["test/nll"]);
    expect(await from("wrong", "--from", "longer", "--rank", "8")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--rank is 8, but the checkpoint of --from has rank 4"),
    });
  });

  it("lets nobody else write into the folder of a run that is under way", async () => {
    slow = true;
    const running = tool.start(train("shared", "--json"), { env });
    await running.line((line) => line.startsWith('{"type":"step","step":2,'));
    let release = () => {};
    held = new Promise((resolve) => {
      release = resolve;
    });
    slow = false;
    const second = await tool.run(train("shared"), { env }); // refused by the folder, before it asks the server
    held = undefined;
    release();
    expect(second).toMatchObject({ code: 1, stderr: expect.stringMatching(/is being written by process \d+/) });
    expect((await running.ended).code).toBe(0);
    expect(read("shared", "metrics.jsonl")).toBe(read("straight", "metrics.jsonl"));
  });

  it("whose checkpoint is gone says what to do; a run is known by its folder, and deleted by it", async () => {
    const records = () =>
      read("gone", "checkpoints.jsonl")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    const one = await tool.run(train("gone", "--eval-every", "0", "--max-steps", "1"), { env });
    expect(one).toMatchObject({ code: 0, stderr: expect.stringContaining("\n1 step (1 epoch) of LoRA rank 4") });
    expect((await tool.run(train("gone", "--eval-every", "0", "--max-steps", "3"), { env })).code).toBe(0); // goes on as another run
    const runs: string[] = records().map(({ state_path }) => state_path.split("/")[2]);
    expect(new Set(runs).size).toBe(2);
    const info = await tool.run(["run", "info", "gone", "--json"], { env });
    expect(JSON.parse(info.stdout)).toMatchObject({ training_run_id: runs.at(-1) });
    const listed = await tool.run(["checkpoint", "list", "--run-id", "gone", "--json"], { env });
    expect(JSON.parse(listed.stdout).checkpoints.length).toBe(4);

    await tool.run(["checkpoint", "delete", "gone", "--yes"], { env }); // both halves of the last
    rmSync(join(tool.work, "gone", "adapter.json"));
    const complete = await tool.run(train("gone", "--eval-every", "0", "--max-steps", "3"), { env });
    expect(complete).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("the server no longer has its checkpoint"),
    });
    const left = await tool.run(train("gone", "--eval-every", "0", "--max-steps", "4"), { env });
    expect(left).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("cannot resume: the server has no checkpoint"),
    });
    expect(left.stderr).toContain(`(--from "${records()[0].state_path}")`);
    const deleted = await tool.run(["run", "delete", "gone", "--yes"], { env });
    expect(deleted).toMatchObject({ code: 0, stdout: expect.stringContaining(runs[0] as string) });
    const lost = await tool.run(train("gone", "--eval-every", "0", "--max-steps", "4"), { env });
    expect(lost).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("this server has no checkpoint of this run"),
    });
    expect(lost.stderr).not.toMatch(/\b[a-z]+[A-Z]\w+/); // no names of the SDK
    rmSync(join(tool.work, "gone", "checkpoints.jsonl"));
    expect(await tool.run(["run", "info", "gone"], { env })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("has no checkpoints, so it names no run"),
    });
  });

  it.runIf(hasPty)("shows one line that is written over on a terminal", async () => {
    const { stdout } = await tool.run(train("terminal"), { env, pty: true });
    expect(stdout.replaceAll("\x1b", "")).toMatch(/\r\[2Kstep \d+\/18 {2}loss \d\.\d{4} .*tokens\/s .* left/);
  });
});

describe("sample and chat", () => {
  const from = () => ["--from", "straight", "--tokenizer", tokenizer, "--max-tokens", "5", "--seed", "1"];

  it("sample continues an argument or stdin, from a base model or a run's folder", async () => {
    const base = [
      "sample",
      "--model",
      baseModel,
      "--tokenizer",
      tokenizer,
      "--max-tokens",
      "5",
      "--seed",
      "1",
      "--json",
    ];
    const given = JSON.parse((await tool.run([...base, "Once upon"], { env })).stdout);
    expect(given).toMatchObject({ model: baseModel, prompt: "Once upon", samples: [{ tokens: expect.any(Number) }] });
    const piped = JSON.parse((await tool.run(base, { env, stdin: "Once upon\n" })).stdout);
    expect(piped).toEqual(given);
    const tuned = JSON.parse(
      (await tool.run(["sample", "Hi", ...from(), "--json", "-n", "3", "--chat"], { env })).stdout,
    );
    expect(tuned.model).toMatch(/sampler_weights\/final$/);
    expect(tuned.samples.length).toBe(3);
    const named = await tool.run(["sample", "Hi", "--from", "straight:nope"], { env });
    expect(named).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/no sampler checkpoint "nope"[\s\S]*It has: step-5, step-10, step-15, best, final/),
    });
  });

  it.each<[string, boolean]>([
    ["in a pipe", false],
    ["on a terminal", true],
  ])("sample and chat show the text while it is written, %s", async (_, pty) => {
    if (pty && !hasPty) return;
    const options = ["--tokenizer", tokenizer, "--max-tokens", "6", "--seed", "1"];
    for (const call of [
      ["sample", "Once upon", ...options],
      ["chat", ...options],
    ]) {
      const whole = JSON.parse((await tool.run([...call, "--json"], { env, stdin: "Hello\n" })).stdout);
      const text: string = (whole.samples?.[0].text ?? whole.content).trim();
      let open = () => {};
      const closed = new Promise<void>((resolve) => {
        open = resolve;
      });
      let drawn = 0;
      beforeToken = () => (drawn++ < 2 ? undefined : closed); // the third token waits until the first two were seen
      const running = tool.start(call, { env, pty, stdin: call[0] === "chat" ? "Hello\n/exit\n" : "" });
      const plain = (line: string) => line.replaceAll("\x1b", "␛").replace(/␛\[[0-9;]*[a-zA-Z]/g, "");
      await running.line((line) => plain(line).includes(text.slice(0, 3)) && !plain(line).includes(text));
      open();
      const ended = await running.ended;
      expect(plain(ended.stdout)).toContain(text);
      expect(ended.code).toBe(0);
      beforeToken = () => undefined;
    }
  });

  it("chat answers each line of a pipe", async () => {
    const { code, stdout, stderr } = await tool.run(["chat", ...from(), "--json"], {
      env,
      stdin: "Hello\n/help\n/rest\n/quit now\n/reset\nAgain\n/exit\nnever\n",
    });
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /\/reset +start a new[\s\S]*\/exit[\s\S]*Unknown command \/rest\. Did you mean \/reset\?[\s\S]*command \/quit\./,
    );
    const turns = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(turns.map(({ role }) => role)).toEqual(["assistant", "assistant"]);
  });
});
