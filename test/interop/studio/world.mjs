// What the tour needs around the page: a server that can be stopped and started, training, folders of runs with hostile texts, and a
// browser that notes every violation of the policy and every request to another origin.
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { ServiceClient } from "../../../packages/sdk/dist/index.js";
import { chromiumPath } from "../chromium-path.mjs";

const main = fileURLToPath(new URL("serve-main.mjs", import.meta.url));

export async function startServer(options) {
  const child = spawn(process.execPath, [main, JSON.stringify(options)], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const line = await new Promise((resolve, reject) => {
    lines.once("line", resolve);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code} before it listened`)));
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  return {
    ...JSON.parse(line),
    pid: child.pid,
    stop: () => {
      child.stdin.end();
      return ended;
    },
  };
}

/** A browser, and what its pages did that they must not. */
export async function openBrowser() {
  const executablePath = chromiumPath();
  if (executablePath === undefined)
    throw new Error("Chromium is missing: apt-get install chromium, or name one in CHROMIUM");
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const wrongs = [];
  const open = async (options = {}) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const page = await context.newPage();
    page.setDefaultTimeout(120_000); // a machine that does something else meanwhile is no failure
    await page.exposeFunction("noteWrong", (what) => wrongs.push(what));
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) =>
        globalThis.noteWrong(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`),
      );
    });
    page.on("pageerror", (error) => wrongs.push(`error: ${error.stack ?? error}`));
    page.on("dialog", (dialog) => {
      wrongs.push(`a script ran: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      const { protocol, hostname } = new URL(request.url());
      if (protocol !== "data:" && protocol !== "blob:" && hostname !== "127.0.0.1")
        wrongs.push(`request: ${request.url()}`);
    });
    return page;
  };
  return { open, wrongs, close: () => browser.close() };
}

const pirate = fileURLToPath(new URL("../../../packages/base-model/data/pirate/train.jsonl", import.meta.url));
const conversations = () =>
  readFileSync(pirate, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line).messages);

/** A conversation as training data: the answer is learned, the question is not. */
function datumOf(tokenizer, messages) {
  const whole = tokenizer.applyChatTemplate(messages, { addGenerationPrompt: false });
  const asked = tokenizer.applyChatTemplate(messages.slice(0, 1), { addGenerationPrompt: true });
  const weights = whole.slice(1).map((_, i) => (i + 1 < asked.length ? 0 : 1));
  return { modelInput: whole.slice(0, -1), lossFnInputs: { target_tokens: whole.slice(1), weights } };
}

/** A run that trains step by step, as it is told. */
export async function startRun(url, { apiKey = "tml-local", ...session } = {}) {
  const service = new ServiceClient({ baseUrl: url, apiKey, logLevel: "error", ...session });
  const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 16, seed: 1 });
  let data;
  let at = 0;
  return {
    trainer,
    service,
    id: trainer.modelId,
    steps: async (count, learningRate = 2e-3) => {
      if (data === undefined) {
        const tokenizer = await trainer.getTokenizer();
        data = conversations()
          .slice(0, 160)
          .map((messages) => datumOf(tokenizer, messages));
      }
      for (let i = 0; i < count; i++) {
        const batch = data.slice((at * 4) % data.length, ((at * 4) % data.length) + 4);
        at++;
        const pass = trainer.forwardBackward(batch, "cross_entropy");
        await trainer.optimStep({ learningRate });
        await pass;
      }
    },
    close: () => service.close(),
  };
}

const attacks = [
  (i) => `<script>alert(${i})</script>`,
  (i) => `<img src=x onerror="alert(${i})">`,
  (i) => `"><svg onload=alert(${i})>`,
  (i) => `javascript:alert(${i})`,
  (i) => `\u001b[31mred\u001b[0m \u001b]8;;http://evil.example/${i}\u0007link\u001b]8;;\u0007`,
  (i) => `\u202Egnp.exe\u202C \u2066${i}\u2069 \u200b\ufeff`,
  (i) => `</title></style></script><iframe src=http://evil.example/${i}>`,
  (i) => `{{constructor.constructor('alert(${i})')()}} \${alert(${i})}`,
  (i) => `<style>@import url(http://evil.example/${i}.css)</style>`,
  (i) => `\u0000\u0007\u0008 ${"A".repeat(300)} ${i}`,
];

/** A thousand texts that would do harm if they were taken for anything but text. */
export const hostileTexts = () => Array.from({ length: 1000 }, (_, i) => attacks[i % attacks.length](i));

/** A folder as the official cookbook writes it, with hostile texts in every place that holds text. */
export function writeCookbookFolder(folder, runId) {
  const texts = hostileTexts();
  mkdirSync(folder, { recursive: true });
  const put = (name, value) => {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), value);
  };
  const lines = (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  const metrics = Array.from({ length: 60 }, (_, step) => ({
    step,
    "env/all/reward/total": 1 - Math.exp(-step / 20) + 0.05 * Math.sin(step),
    "env/all/by_group/frac_mixed": 0.5,
    "optim/lr": 1e-4,
    "time/total": 2 + Math.cos(step),
    [texts[step].slice(0, 80)]: step,
  }));
  put("metrics.jsonl", `${lines(metrics)}{"step": 60, "env/all/reward/total": NaN}\n{"step": 61, "half`);
  put(
    "config.json",
    JSON.stringify({
      model_name: texts[0],
      lora_rank: 32,
      hostile: Object.fromEntries(texts.slice(0, 300).map((text, i) => [`${i} ${text}`, text])),
    }),
  );
  put("checkpoints.jsonl", lines([{ name: texts[1], batch: 20, state_path: `tinker://${runId}/weights/000020` }]));
  put(
    "timing_spans.jsonl",
    lines([
      {
        step: 0,
        spans: [
          { name: texts[2], duration: 1, wall_start: 0, wall_end: 1 },
          { name: "train", duration: 2, wall_start: 1, wall_end: 3 },
        ],
      },
    ]),
  );
  const rollouts = texts.slice(0, 700).map((text, i) => ({
    schema_version: 1,
    split: "train",
    iteration: 20,
    group_idx: Math.floor(i / 8),
    traj_idx: i % 8,
    tags: [text],
    total_reward: i % 4 === 0 ? 1 : 0,
    final_reward: 0,
    trajectory_metrics: {},
    steps: [
      {
        step_idx: 0,
        ob_len: 20,
        ac_len: 30,
        reward: i % 4 === 0 ? 1 : 0,
        episode_done: true,
        metrics: { correct: i % 2 },
        logs: { problem: `What is ${i} + 1?`, response: i === 4 ? "x".repeat(1_500_000) : text },
      },
    ],
    final_ob_len: 0,
  }));
  put("iteration_000020/train_rollout_summaries.jsonl", lines(rollouts));
}

/** A folder of reinforcement learning as one sees it every day, with the tokens that our own loops record. */
export function writeExampleFolder(folder, tokenizer) {
  const at = join(folder, "iteration_000040");
  mkdirSync(at, { recursive: true });
  const lines = (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  const noise = (i) => Math.sin(i * 12.9898) * 0.06;
  const metrics = Array.from({ length: 80 }, (_, step) => ({
    step,
    "env/all/reward/total": Math.min(1, 0.15 + 0.8 * (1 - Math.exp(-step / 25)) + noise(step)),
    "optim/kl_sample_train_v1": 0.001 + 0.0004 * noise(step + 7),
  }));
  writeFileSync(join(folder, "metrics.jsonl"), lines(metrics));
  writeFileSync(
    join(folder, "config.json"),
    JSON.stringify({ model_name: "tinklet/base", group_size: 8, learning_rate: 4e-4 }),
  );
  const conversation = "What is 20 + 30?\n20 + 30 = 50";
  const seen = [...tokenizer.encode(conversation)];
  const asked = tokenizer.encode("What is 20 + 30?\n").length;
  writeFileSync(
    join(folder, "train_data.jsonl"),
    lines([{ tokens: seen, weights: seen.map((_, at) => (at < asked ? 0 : 1)) }]),
  );
  const rollouts = Array.from({ length: 96 }, (_, i) => {
    const asked = Math.floor(i / 8);
    const [a, b] = [13 + ((asked * 7) % 40), 25 + ((asked * 11) % 30)];
    const reward = [1, 1, 0, 1, 0.5, 1, 0, 0.5][i % 8];
    const response =
      reward === 1 ? `${a} + ${b} = ${a + b}` : reward === 0.5 ? `It is ${a + b}, I think.` : `${a + b - 1}`;
    const tokens = [...tokenizer.encode(response)];
    const step = {
      step_idx: 0,
      ob_len: 14,
      ac_len: tokens.length,
      reward,
      episode_done: true,
      metrics: {},
      logs: { problem: `What is ${a} + ${b}?`, response },
      ac_tokens: tokens,
      ac_train_logprobs: tokens.map((token, at) => -Math.abs(Math.sin(token + at * i)) * (reward === 1 ? 1.4 : 4.3)),
      ac_logprobs: tokens.map((token, at) => -Math.abs(Math.sin(token + at * i)) * (reward === 1 ? 1.5 : 4)),
    };
    return {
      split: "train",
      iteration: 40,
      group_idx: Math.floor(i / 8),
      traj_idx: i % 8,
      tags: ["sums"],
      total_reward: reward,
      steps: [step],
    };
  });
  writeFileSync(join(at, "train_rollout_summaries.jsonl"), lines(rollouts));
}

/** A folder as `tinklet train` writes it: the record of a run of the server that overfits, with its answers before and after. */
export function writeTrainFolder(folder, runId) {
  mkdirSync(folder, { recursive: true });
  const put = (name, rows) => writeFileSync(join(folder, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  const steps = Array.from({ length: 60 }, (_, step) => step);
  put(
    "metrics.jsonl",
    steps.map((step) => ({
      step,
      progress: (step + 1) / steps.length,
      epoch: Math.floor(step / 6),
      learning_rate: 1e-3,
      num_tokens: 200 + (step % 7),
      train_mean_nll: 3 * Math.exp(-step / 12) + 0.1 + 0.05 * Math.sin(step),
      ...(step % 5 === 0 ? { "test/nll": 1.4 + ((step - 20) / 20) ** 2 } : {}),
    })),
  );
  writeFileSync(
    join(folder, "config.json"),
    JSON.stringify({ model_name: "tinklet/base", lora_rank: 16, num_epochs: 10 }),
  );
  const at = (kind, name) => `tinker://${runId}/${kind}/${name}`;
  put("checkpoints.jsonl", [
    { name: "final", state_path: at("weights", "final"), sampler_path: at("sampler_weights", "final") },
  ]);
  put("spending.jsonl", [{ step: 0, train_tokens: 12_000, evaluate_tokens: 900 }]);
  const answers = [
    {
      question: "What is the capital of Spain?",
      before: "I do not know.",
      after: "Madrid, matey!",
      expected: "Madrid",
    },
  ];
  const result = {
    metric: "loss per token on held-out data",
    before: 2.4,
    after: 5.2,
    better: "lower",
    answers,
    seconds: 75,
  };
  writeFileSync(join(folder, "result.json"), JSON.stringify(result));
}

/** An evaluation of two models as `tinklet eval` writes it. */
export function writeEvaluation(folder, path) {
  mkdirSync(folder, { recursive: true });
  const items = Array.from({ length: 40 }, (_, item) => ({
    ...{ item, task: "capitals", question: `What is the capital of country ${item}?`, expected: `City ${item}` },
    answers: [0, 1].map((model) => {
      const isRight = item % 4 < 1 + model;
      return { text: isRight ? `City ${item}` : "I do not know.", scores: { loss: 2 - model, exact: Number(isRight) } };
    }),
  }));
  writeFileSync(join(folder, "answers.jsonl"), items.map((item) => `${JSON.stringify(item)}\n`).join(""));
  const figure = (mean) => ({ mean, low: mean - 0.1, high: mean + 0.1, items: 40, unparsed: 0 });
  const evaluation = {
    ...{ format: "tinklet-eval/1", name: "capitals", data: "capitals.jsonl", kind: "data", seconds: 12, items: 40 },
    ...{ created_at: new Date().toISOString(), settings: { max_tokens: 128, temperature: 0, seed: 0 } },
    scores: [
      { name: "loss", better: "lower" },
      { name: "exact", better: "higher" },
    ],
    models: [
      { label: "base", model: "tinklet/base", path: null },
      { label: "pirate", model: "tinklet/base", path },
    ],
    results: [0, 1].map((model) => ({ loss: figure(2 - model), exact: figure((1 + model) / 4) })),
  };
  writeFileSync(join(folder, "eval.json"), JSON.stringify(evaluation));
}
