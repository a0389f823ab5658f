// `tinklet studio` on folders that the official cookbook wrote, in a real Chromium: its curves, its samples and the texts of its log.
//   node test/interop/studio/official.mjs FOLDER        the folder of one run; needs the built packages
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { openBrowser } from "./world.mjs";

const command = fileURLToPath(new URL("../../../packages/tinklet/bin/tinklet.mjs", import.meta.url));

/** How many lines of a run have a metric. */
const points = (folder, metric) =>
  new Set(
    readFileSync(`${folder}/metrics.jsonl`, "utf8")
      .split("\n")
      .filter((line) => line.includes(`"${metric}"`))
      .map((line) => JSON.parse(line).step),
  ).size;

/** Opens a run's folder with `tinklet studio` in a browser of its own. @returns what its page did that it must not. */
export async function openFolder(folder, look) {
  const child = spawn(process.execPath, [command, "studio", folder, "--port", "0", "--json"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const browser = await openBrowser();
  try {
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    const page = await browser.open();
    await page.goto(JSON.parse(line).studio);
    await page.getByTestId("runs").getByRole("link").first().click();
    await look(page);
    return browser.wrongs;
  } finally {
    await browser.close();
    child.kill("SIGTERM");
    await ended;
  }
}

/** Looks for what an official run must show. @returns what was seen, in words. @throws where something is missing. */
export async function showOfficialRun(folder, { metric, rollouts = false }) {
  const count = points(folder, metric);
  assert.ok(count > 1, `${folder} has ${count} points of ${metric}`);
  const seen = [`${metric} with ${count} points`];
  const wrongs = await openFolder(folder, async (page) => {
    await page.getByRole("img", { name: new RegExp(`^(reward|loss) by step.*training: ${count} points`) }).waitFor();
    if (!rollouts) return;
    const told = await page.getByTestId("rollout-count").textContent();
    assert.match(told, /^[1-9]\d* of [1-9]\d* samples/);
    await page.locator(".samples summary").first().click();
    await page.getByText(/Turn 1: reward/).waitFor();
    const log = page.getByTestId("step-log");
    await log.locator("summary").first().click();
    const answers = log.locator(".log", { hasText: /^assistant/ });
    seen.push(told, JSON.stringify((await answers.first().textContent()).slice(0, 60)));
  });
  assert.deepEqual(wrongs, []);
  return seen.join(", ");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder] = process.argv.slice(2);
  const isRl = readFileSync(`${folder}/metrics.jsonl`, "utf8").includes("env/all/reward/total");
  console.log(
    await showOfficialRun(folder, { metric: isRl ? "env/all/reward/total" : "train_mean_nll", rollouts: isRl }),
  );
}
