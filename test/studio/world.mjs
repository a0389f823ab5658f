// What the tour needs around the page: a server that can be stopped and started, training, folders of runs with hostile texts, and a
// browser that notes every violation of the policy and every request to another origin.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { ServiceClient } from "../../packages/tinklet/dist/index.js";

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
    stop: () => {
      child.stdin.end();
      return ended;
    },
  };
}

export const chromiumPath = () => [process.env.CHROMIUM, "/usr/bin/chromium"].find((path) => path && existsSync(path));

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

const tokens = (seed) => Array.from({ length: 24 }, (_, i) => 5 + ((seed * 31 + i * 7) % 200));

/** A run that trains step by step, as it is told. */
export async function startRun(url, { apiKey = "tml-local", ...session } = {}) {
  const service = new ServiceClient({ baseUrl: url, apiKey, logLevel: "error", ...session });
  const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 4, seed: 1 });
  let at = 0;
  return {
    trainer,
    service,
    id: (await trainer.getInfo()).modelId,
    steps: async (count, learningRate = 5e-3) => {
      for (let i = 0; i < count; i++) {
        const input = tokens(at++ % 3);
        const datum = {
          modelInput: input,
          lossFnInputs: { target_tokens: input.map((t) => t + 1), weights: input.map(() => 1) },
        };
        const pass = trainer.forwardBackward([datum], "cross_entropy");
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
        logs: { problem: `What is ${i} + 1?`, response: i === 4 ? "x".repeat(10_000_000) : text },
      },
    ],
    final_ob_len: 0,
  }));
  put("iteration_000020/train_rollout_summaries.jsonl", lines(rollouts));
}
