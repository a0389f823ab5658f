// The studio in a real Chromium: sign-in, a run that grows, comparing, rollouts, the playground, deleting, a restart, two tenants; each page
// by axe in both colours; hostile texts everywhere. `--pictures` also writes the pictures of docs/studio.md. Needs the built packages.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { hostileTour } from "./hostile.mjs";
import { keyboardTour } from "./keyboard.mjs";
import { longLists } from "./long-lists.mjs";
import { openFolder } from "./official.mjs";
import { takePictures } from "./pictures.mjs";
import { eachTracesPlace, tracesTour, writeTraces } from "./traces.mjs";
import {
  hostileTexts,
  openBrowser,
  startRun,
  startServer,
  writeCookbookFolder,
  writeEvaluation,
  writeExampleFolder,
  writeTrainFolder,
} from "./world.mjs";

const withPictures = process.argv.includes("--pictures");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const work = mkdtempSync(join(tmpdir(), "tinklet-studio-"));
const started = performance.now();
let passed = 0;
const failures = [];
const check = async (name, test) => {
  try {
    await test();
    passed++;
    console.log(`ok    ${name}`);
  } catch (error) {
    failures.push(name);
    console.log(
      `FAIL  ${name}\n      ${String(error.stack ?? error)
        .split("\n")
        .slice(0, 12)
        .join("\n      ")}`,
    );
  }
};

const browser = await openBrowser();
const dataDir = join(work, "data");
const folder = join(work, "runs", "official");
let server = await startServer({ dataDir });
const alpha = await startRun(server.url, { displayName: "pirate-a" });
const beta = await startRun(server.url, { displayName: "pirate-b", tags: ["sweep"] });
const gamma = await startRun(server.url);
writeCookbookFolder(folder, "s-00000000000000000000:train:0");
writeTrainFolder(join(work, "runs", "overfit"), gamma.id);
writeEvaluation(join(work, "runs", "evals", "capitals"), `tinker://${gamma.id}/sampler_weights/final`);
writeExampleFolder(join(work, "runs", "sums"), await alpha.trainer.getTokenizer());
await server.stop();
server = await startServer({ dataDir, port: server.port, runs: [join(work, "runs")] });
const page = await browser.open();
const go = async (place) => {
  await page.goto(`${server.url}/#${place}`);
  await page.locator("main h1, main .notice").first().waitFor();
};
/** Opens a run by the list, which shows only the rows in sight. */
const find = async (name) => {
  await go("/runs");
  await page.getByLabel("Search runs").fill(name);
  await page.getByTestId("runs").getByRole("row").filter({ hasText: name }).getByRole("link").click();
};
const points = async () => Number(await page.getByTestId("charts").getAttribute("data-points"));
const until = async (what, test, ms = 120_000) => {
  const end = Date.now() + ms;
  while (!(await test())) {
    if (Date.now() > end) throw new Error(`${what} did not happen within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};
const judge = async (what, judged = page) => {
  await judged.evaluate(`${axe}; undefined`).catch(() => {});
  const { violations } = await judged.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const told = violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes
        .map(({ target, failureSummary }) => `${target} ${failureSummary}`)
        .slice(0, 3)
        .join(" | ")}`,
  );
  assert.deepEqual(told, [], `${what}: axe`);
};

try {
  await check("the first page is at most 100 kB", () => {
    const built = ["index.html", "page.js", "page.css", "icon.svg"];
    const size = built.reduce(
      (sum, name) =>
        sum +
        gzipSync(readFileSync(fileURLToPath(new URL(`../../../packages/studio/dist/page/${name}`, import.meta.url))), {
          level: 9,
        }).length,
      0,
    );
    console.log(`      ${(size / 1000).toFixed(1)} kB`);
    assert.ok(size <= 100_000, `${size} bytes`);
  });
  await check("the printed link signs in, and its token leaves the address", async () => {
    await page.goto(server.studio);
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    assert.ok(!page.url().includes("token"), page.url());
    const [cookie] = await page.context().cookies();
    assert.ok(cookie.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
    assert.equal(await page.evaluate(() => document.cookie), "");
  });
  await check("the same link does not sign in twice, and says so", async () => {
    const other = await browser.open();
    await other.goto(server.studio);
    await other.getByText("already used").waitFor();
    await other.getByLabel("Key").fill("tml-anything");
    await other.keyboard.press("Enter");
    await other.getByRole("heading", { name: "Runs" }).waitFor();
    await other.context().close();
  });
  await check("a run's curve grows while the page is open", async () => {
    await alpha.steps(3);
    await page.getByTestId("runs").getByRole("link", { name: "pirate-a" }).click();
    await page.getByRole("heading", { name: "pirate-a" }).waitFor();
    await page.getByTestId("charts").waitFor();
    const before = await points();
    const training = alpha.steps(12);
    await until("more points", async () => (await points()) > before);
    const between = await points();
    await training;
    await until("all points", async () => (await points()) === 15);
    assert.ok(between > before);
    await page.getByRole("img", { name: /^loss by step.*15 points/ }).waitFor();
  });
  await check("smoothing, log scale, axes and zoom by keyboard", async () => {
    await page.getByLabel("Smoothing").fill("0.6");
    await page.getByLabel("Log scale").check();
    await page.getByLabel("Tokens", { exact: true }).check({ force: true });
    const chart = page.getByRole("img", { name: /^loss by tokens/ });
    await chart.focus();
    await page.keyboard.press("+");
    await until("zoom", () => page.getByRole("button", { name: "Show all" }).isEnabled());
    await page.keyboard.press("0");
    await until("zoom back", () => page.getByRole("button", { name: "Show all" }).isDisabled());
    await page.getByLabel("Log scale").uncheck();
  });
  await check("two runs are compared, with what differs", async () => {
    await beta.steps(8, 2e-2);
    await page.getByText("Compare with other runs").click();
    await page.getByRole("checkbox", { name: /pirate-b/ }).check();
    await page.getByRole("list", { name: "Runs in the charts" }).getByText("pirate-b").waitFor();
    await page.getByText(/Configuration: \d+ differences?/).waitFor();
    assert.ok(page.url().includes("compare="));
    await page.reload();
    await page.getByRole("list", { name: "Runs in the charts" }).getByText("pirate-b").waitFor();
  });
  await check("runs are compared by their boxes in the list", async () => {
    await go("/runs");
    for (const name of ["pirate-a", "pirate-b"]) await page.getByRole("checkbox", { name: `Compare ${name}` }).check();
    await page.getByText("2 runs selected").waitFor();
    await page.getByRole("link", { name: "Compare", exact: true }).click();
    const names = page.getByRole("list", { name: "Runs in the charts" });
    for (const name of ["pirate-a", "pirate-b"]) await names.getByText(name).waitFor();
    await page
      .getByRole("img", { name: /^loss by step.*pirate-a, training: 15 points.*pirate-b, training: 8 points/ })
      .waitFor();
  });
  await check(
    "a run and its folder are one row and one page: outcome, best step, diagnosis, answers, constants",
    async () => {
      await go("/runs");
      const rows = page.getByTestId("runs").getByRole("row").filter({ hasText: "overfit" });
      assert.equal(await rows.count(), 1);
      assert.equal(await page.getByText(gamma.id).count(), await rows.getByText(gamma.id).count());
      await rows.getByRole("link").click();
      await page.getByRole("img", { name: /^loss by step.*training: 60 points.*held-out: 12 points/ }).waitFor();
      const tiles = await page.getByTestId("tiles").innerText();
      assert.match(tiles, /Final held-out loss\s+4\.\d+\s+0\.\d+ on training data/);
      assert.match(tiles, /Best\s+1\.4\s+at step 20/);
      assert.match(tiles, /Score\s+2\.4 → 5\.2/);
      assert.match(tiles, /Duration\s+1 min/);
      assert.match(tiles, /Cost\s+Free\s+12K tokens trained, 900 evaluated/);
      assert.match(
        await page.getByTestId("notes").innerText(),
        /^1\s+The test loss rose to \S+; its best was 1\.40 after 20 steps/,
      );
      assert.match(await page.getByTestId("before-after").innerText(), /I do not know\.[\s\S]*Madrid, matey!/);
      assert.equal(await page.getByRole("img", { name: /^(epoch|learning_rate) by/ }).count(), 0);
      await page.getByText("Unchanged (1)").click();
      assert.match(await page.locator(".constants").innerText(), /learning_rate\s+0\.001/);
      await go(`/runs/${gamma.id}`);
      await page.getByRole("img", { name: /^loss by step.*training: 60 points/ }).waitFor();
    },
  );
  const saved = await alpha.trainer.saveWeightsForSampler("after");
  await alpha.trainer.saveState("state");
  await check("a chat of two turns with two models side by side, as they write", async () => {
    await go(`/playground?model=${encodeURIComponent("tinklet/base")}&model=${encodeURIComponent(saved.path)}`);
    await page.getByText("System message").click();
    await page.getByLabel("System message").fill("You are a pirate.");
    await page.getByLabel("Tokens", { exact: true }).fill("24");
    const requests = [];
    page.on("request", (one) => one.url().endsWith("/chat/completions") && requests.push(one.postDataJSON()));
    for (const [turn, text] of ["What is the capital of Spain?", "And of France?"].entries()) {
      await page.getByLabel("Message", { exact: true }).fill(text);
      await page.keyboard.press("Enter");
      for (const number of [1, 2]) {
        const answer = page.getByRole("article", { name: `Answer ${number} of turn ${turn + 1}` });
        await until("an answer", async () => /[1-9]\d* tokens?/.test(await answer.textContent()));
      }
      await until("both ends", async () => (await page.locator(".answer[aria-busy=true]").count()) === 0);
    }
    const [first, second] = await page.locator(".answer").allInnerTexts();
    assert.ok(first.length > 0 && second.length > 0 && first !== second, JSON.stringify([first, second]));
    const { messages } = requests.find(({ model, messages: sent }) => model === saved.path && sent.length > 2);
    assert.deepEqual(
      messages.map(({ role }) => role),
      ["system", "user", "assistant", "user"],
    );
    assert.equal(messages[2].content.trim(), second.trim());
  });
  await check("the probabilities of a token are bars, by mouse and by keyboard", async () => {
    const answer = page.locator(".answer").nth(1);
    await answer.locator(".token").first().hover();
    const bars = page.getByRole("list", { name: /^Probabilities in place of/ });
    assert.ok((await bars.getByRole("listitem").count()) >= 5);
    await page.mouse.move(0, 0);
    await bars.waitFor({ state: "detached" });
    await answer.focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await bars.innerText(), /\d+\.\d %/);
    await page.keyboard.press("Escape");
    await bars.waitFor({ state: "detached" });
  });
  await check("the chat as code for the SDK, the OpenAI client and the AI SDK", async () => {
    await page.getByText("Use it in code").click();
    for (const [name, pattern] of [
      ["Tinklet SDK", /createSamplingClient/],
      ["OpenAI client", /new OpenAI/],
      ["AI SDK", /generateText/],
      ["Command", /^npx tinklet sample/],
    ]) {
      await page.getByLabel(name, { exact: true }).check({ force: true });
      await page.getByRole("button", { name: "Copy code" }).click();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(copied, pattern);
      assert.match(copied, /And of France\?/);
      await page.getByRole("button", { name: "Copied" }).waitFor();
      await page.getByRole("button", { name: "Copy code" }).waitFor();
    }
  });
  await check("an answer stops when it is told to, and a new chat is empty", async () => {
    await page.getByLabel("Tokens", { exact: true }).fill("2000");
    await page.getByLabel("Message", { exact: true }).fill("Count.");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("button", { name: "Stop" }).click();
    await until("both ends", async () => (await page.locator(".answer[aria-busy=true]").count()) === 0);
    await page.getByRole("button", { name: "New chat" }).click();
    assert.equal(await page.locator(".answer").count(), 0);
  });
  await check(
    "a checkpoint is one row with two files; it is deleted after a question, and kept by Escape",
    async () => {
      await alpha.trainer.saveState("both");
      await alpha.trainer.saveWeightsForSampler("both");
      await go("/checkpoints");
      const row = page
        .getByTestId("checkpoints")
        .getByRole("row")
        .filter({ has: page.getByRole("rowheader", { name: "both", exact: true }) });
      assert.match(await row.innerText(), /weights\s+training state/);
      await row.getByRole("button", { name: "More about both" }).click();
      const dialog = page.getByRole("dialog").first();
      await dialog.getByRole("heading", { name: "both" }).waitFor();
      assert.equal(await dialog.getByRole("button", { name: "Copy path" }).count(), 2);
      await dialog.getByRole("button", { name: "Publish" }).click();
      await row.getByText("Public", { exact: true }).waitFor();
      const question = page.getByRole("dialog").filter({ hasText: "Delete this checkpoint?" });
      await dialog.getByRole("button", { name: /^Delete/ }).click();
      await question.getByText("Both files cannot be restored.").waitFor();
      await page.keyboard.press("Escape");
      await question.waitFor({ state: "detached" });
      assert.equal(await row.count(), 1);
      await dialog.getByRole("button", { name: /^Delete/ }).click();
      await page.getByRole("button", { name: "Delete permanently" }).click();
      await page.getByText("The checkpoint was deleted.").waitFor();
      await until("it is gone", async () => (await row.count()) === 0);
    },
  );
  await check("a folder of the official cookbook: curves, rollouts, the histogram filters", async () => {
    await go("/runs");
    await page.getByRole("link", { name: "runs/official" }).click();
    await page.getByRole("img", { name: /^reward by step.*60 points/ }).waitFor();
    await page.getByTestId("rollout-count").getByText("700 of 700 samples").waitFor();
    await page.getByRole("button", { name: /: 175 samples/ }).click();
    await page.getByTestId("rollout-count").getByText("175 of 700 samples").waitFor();
    for (const summary of (await page.locator(".samples summary").all()).slice(0, 20)) await summary.click();
    await page.getByRole("button", { name: /Show more of 1,500,000/ }).waitFor();
  });
  await check("rollouts: a group side by side, tokens coloured, raw tokens on demand", async () => {
    await go("/runs");
    await page.getByRole("link", { name: "runs/sums" }).click();
    await page.getByTestId("rollout-count").getByText("96 of 96 samples").waitFor();
    await page.locator(".samples summary").nth(2).click();
    const tokens = page.getByTestId("tokens").first();
    await until("the texts of tokens", async () => /\d \+|=|\d/.test(await tokens.textContent()));
    await until("colours", async () => (await tokens.locator("[class*=sure-]").count()) > 0);
    const text = await tokens.locator("p").textContent();
    await tokens.getByRole("button", { name: "Raw tokens" }).click();
    assert.match(await tokens.locator("p").textContent(), /^(\d+ )+$/);
    assert.doesNotMatch(text, /^(\d+ )+$/);
    await page.getByRole("button", { name: "Compare group 0" }).click();
    await page.getByTestId("rollout-count").getByText("8 of 96 samples: group 0").waitFor();
    const cards = page.getByTestId("group").getByRole("listitem").filter({ hasText: "advantage" });
    const [best] = await cards.allInnerTexts();
    assert.match(best, /^1\s+advantage 0\.375/);
    await page.getByLabel("Advantage", { exact: true }).check({ force: true });
    assert.ok((await page.locator("[class*=gain-]").count()) > 0 && (await page.locator("[class*=cost-]").count()) > 0);
    await page.getByLabel("KL", { exact: true }).check({ force: true });
    assert.ok((await page.locator("[class*=gain-]").count()) > 0 && (await page.locator("[class*=cost-]").count()) > 0);
  });
  await check("an evaluation: figures, the best of them, answers next to each other, those that differ", async () => {
    await page.getByRole("link", { name: "Evaluations" }).click();
    await page.getByTestId("evaluations").getByRole("link", { name: "capitals" }).click();
    const figures = page.getByTestId("figures").getByRole("row");
    assert.match(await figures.nth(2).innerText(), /pirate[\s\S]*\t1\s+\(best\)[\s\S]*\t0\.5\s+\(best\)/);
    await page.getByText("40 of 40").waitFor();
    const first = page.getByTestId("items").getByRole("listitem").first();
    assert.match(await first.innerText(), /country 0\?[\s\S]*expected: City 0[\s\S]*base[\s\S]*pirate/);
    await page.getByLabel("Scores differ").check({ force: true });
    await page.getByText("10 of 40").waitFor();
    assert.match(await first.innerText(), /country 1\?[\s\S]*I do not know\.[\s\S]*City 1/);
    await page.getByLabel("Worse").check({ force: true });
    await page.getByText("0 of 40").waitFor();
    await find("runs/sums");
  });
  await check("training data as the model sees it, with its weights coloured", async () => {
    await page.getByText("Training data, as the model sees it").click();
    const sequence = page.getByTestId("training-data").getByTestId("tokens");
    await until("the texts", async () => /What is 20 \+ 30\?/.test(await sequence.locator("p").textContent()));
    const learned = await sequence.locator("[class*=gain-2]").allTextContents();
    assert.equal(learned.join("").trim(), "20 + 30 = 50");
  });
  await check("a folder without a server: the command shows its curves, samples and the texts of tokens", async () => {
    const seen = await openFolder(join(work, "runs", "sums"), async (alone) => {
      await alone.getByTestId("rollout-count").getByText("96 of 96 samples").waitFor();
      await alone.locator(".samples summary").first().click();
      const tokens = alone.getByTestId("tokens").first().locator("p");
      await until("the texts of tokens", async () => / = /.test(await tokens.textContent()));
    });
    assert.deepEqual(seen, []);
  });
  await check("two folders are compared, with what differs", async () => {
    await page.getByText("Compare with other runs").click();
    await page.getByRole("checkbox", { name: /runs\/official/ }).check();
    await page.getByRole("list", { name: "Runs in the charts" }).getByText("runs/official").waitFor();
    await page.getByText(/Configuration: \d+ differences?/).waitFor();
    await page.reload();
    await page.getByRole("img", { name: /^reward by step.*80 points.*60 points/ }).waitFor();
  });
  await check("what the key has used, and the command that exports a checkpoint", async () => {
    await go("/server");
    await page.getByRole("heading", { name: "Tokens of the key local, last 30 days" }).waitFor();
    const [trained, sampled] = await page
      .getByTestId("usage")
      .getByRole("row")
      .nth(1)
      .getByRole("cell")
      .allInnerTexts();
    assert.ok(/^[1-9]/.test(trained) && /^[1-9]/.test(sampled), `${trained} ${sampled}`);
    await go("/checkpoints");
    await page
      .getByRole("button", { name: /^More about/ })
      .first()
      .click();
    await page.getByRole("button", { name: "Copy export command" }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /^npx tinklet export pirate-a@\S+ --format gguf$/);
  });
  await tracesTour({ browser, server, page, check, go, work });
  await check("the server stops and starts: the page reconnects and the curve goes on", async () => {
    await go(`/runs/${alpha.id}`);
    await page.getByTestId("charts").waitFor();
    const { port } = server;
    await server.stop();
    await page.getByText("Reconnecting").waitFor();
    server = await startServer({ dataDir, port, runs: [join(work, "runs")] });
    await page.getByText("Live", { exact: true }).waitFor({ timeout: 30_000 });
    await alpha.steps(2);
    await until("the new points", async () => (await points()) === 17);
  });
  await check(
    "500 runs, 2,000 checkpoints and 10,000 traces: only the rows in sight exist, and scrolling goes to the last",
    async () => {
      for (const line of await longLists({ browser, server })) console.log(`      ${line}`);
    },
  );
  await check("the whole tour by keyboard alone", async () => {
    await keyboardTour({ browser, server, runName: "pirate-a", otherName: "pirate-b" });
  });
  if (withPictures) {
    await alpha.steps(40);
    await beta.steps(30, 5e-3);
    const { path } = await alpha.trainer.saveWeightsForSampler("pirate");
    await takePictures({ browser, server, alpha, beta, saved: path });
  }
  await check("hostile names, tags and notes of runs are text", async () => {
    const texts = hostileTexts();
    for (let i = 0; i < 20; i++) {
      const bad = await startRun(server.url, {
        displayName: texts[i].slice(0, 200),
        tags: [texts[i + 20]],
        userMetadata: { [`n${i}`]: texts[i + 40] },
      });
      if (i < 2) await bad.steps(2);
      await bad.close();
      if (i < 2) {
        await go(`/runs/${bad.id}`);
        await page.getByTestId("charts").waitFor();
      }
    }
    await go("/runs");
    await until("the runs", async () => Number(await page.getByTestId("runs").getAttribute("aria-rowcount")) > 20);
  });
  await check("a thousand hostile texts through every text of every page", async () => {
    const { folders } = await page.evaluate(async () => (await fetch("/api/v1/tinklet/folders")).json());
    const { folder_id: folderId, rollouts } = folders.find(({ name }) => name === "runs/official");
    const { evaluations } = await page.evaluate(async () => (await fetch("/api/v1/tinklet/evaluations")).json());
    const { traces } = await page.evaluate(async () =>
      (await fetch("/api/v1/tinklet/traces?tool=search_orders")).json(),
    );
    const told = {
      ...{ evaluationId: evaluations[0].evaluation_id, runId: alpha.id, folderId, rolloutFile: rollouts[0] },
      traceId: traces[0].trace_id,
    };
    const { given, seen, counts } = await hostileTour({ browser, server, ...told });
    const shown = Object.entries(counts).map(([name, count]) => `${name} ${count}`);
    console.log(`      ${given} given, ${seen} different ones seen; ${shown.join(", ")}`);
    assert.equal(seen, 1000);
  });
  for (const colour of ["light", "dark"]) {
    await check(`axe finds nothing, ${colour}`, async () => {
      await page.emulateMedia({ colorScheme: colour });
      for (const place of ["/runs", `/runs/${alpha.id}?compare=${beta.id}`, "/playground", "/checkpoints", "/server"]) {
        await go(place);
        await page.waitForLoadState("networkidle").catch(() => {});
        await judge(place);
      }
      await find("runs/official");
      await page.getByTestId("rollout-count").waitFor();
      await judge("folder");
      await page.getByText("Compare with other runs").waitFor();
      await find("runs/sums");
      await page.locator(".samples summary").first().click();
      await page.getByRole("button", { name: /^Compare group/ }).click();
      await page.getByTestId("group").waitFor();
      await page.getByText("Training data, as the model sees it").click();
      await page.getByTestId("training-data").waitFor();
      for (const colouring of ["Log-prob", "Advantage", "KL"]) {
        await page.getByLabel(colouring, { exact: true }).check({ force: true });
        await judge(`tokens by ${colouring}`);
      }
      await go("/runs");
      await page.getByLabel("Search runs").fill("pirate-a");
      await page.getByRole("checkbox", { name: "Compare pirate-a" }).check();
      await judge("a selected run");
      await go("/evaluations");
      await page.getByTestId("evaluations").waitFor();
      await judge("evaluations");
      await page.getByRole("link", { name: "capitals" }).click();
      await page.getByTestId("items").waitFor();
      await judge("an evaluation");
      await find("runs/overfit");
      await page.getByTestId("notes").waitFor();
      await page.getByText("Unchanged (1)").click();
      await judge("a run and its folder");
      await eachTracesPlace(page, go, judge);
      await go("/playground?prompt=Hello");
      await page.getByLabel("Tokens", { exact: true }).fill("8");
      await page.getByRole("button", { name: "Send" }).click();
      await page.waitForFunction(() => document.querySelectorAll(".answer[aria-busy=false] .token").length > 0);
      await page.locator(".answer").focus();
      await page.keyboard.press("ArrowRight");
      await page.getByText("Use it in code").click();
      await judge("a chat");
      await go("/checkpoints");
      await page
        .getByRole("button", { name: /^More about/ })
        .first()
        .click();
      await page.getByRole("dialog").waitFor();
      await judge("a checkpoint");
      await page.getByRole("button", { name: /^Delete/ }).click();
      await page.getByText("Delete this checkpoint?").waitFor();
      await judge("the question before deleting");
      await page.keyboard.press("Escape");
      await page.keyboard.press("Escape");
      const outside = await browser.open({ colorScheme: colour });
      await outside.goto(`${server.url}/`);
      await outside.getByLabel("Key").waitFor();
      await judge("sign-in", outside);
      await outside.context().close();
    });
  }
  for (const width of [390, 768, 1280, 1920]) {
    await check(`pages fit a window of ${width} pixels, light and dark`, async () => {
      const seen = await browser.open({ viewport: { width, height: 900 } });
      await seen.goto(`${server.url}/`);
      await seen.getByLabel("Key").fill("tml-local");
      await seen.keyboard.press("Enter");
      await seen.getByRole("heading", { name: "Runs" }).waitFor();
      const places = [
        ["/runs", "runs"],
        [`/runs/${alpha.id}?compare=${beta.id}`, "charts"],
        ["/checkpoints", "checkpoints"],
        ["/evaluations", "evaluations"],
        ["/playground", undefined],
        ["/server", undefined],
      ];
      const told = [];
      for (const [place, shown] of places) {
        await seen.goto("about:blank");
        await seen.goto(`${server.url}/#${place}`);
        await seen.getByRole("heading", { level: 1 }).first().waitFor();
        if (shown !== undefined) await seen.getByTestId(shown).first().waitFor();
        await seen.waitForLoadState("networkidle").catch(() => {});
        for (const colorScheme of ["light", "dark"]) {
          await seen.emulateMedia({ colorScheme });
          const wide = await seen.evaluate(widerThanWindow);
          if (wide.length > 0) told.push(`${place}, ${colorScheme}: ${wide.join(", ")}`);
        }
        if (width === 390) await judge(`${place} at ${width} pixels`, seen);
      }
      const goSeen = async (place) => {
        await seen.goto(`${server.url}/#${place}`);
        await seen.getByRole("heading", { level: 1 }).first().waitFor();
      };
      await eachTracesPlace(seen, goSeen, async (what) => {
        for (const colorScheme of ["light", "dark"]) {
          await seen.emulateMedia({ colorScheme });
          const wide = await seen.evaluate(widerThanWindow);
          if (wide.length > 0) told.push(`${what}, ${colorScheme}: ${wide.join(", ")}`);
        }
        if (width === 390) await judge(`${what} at ${width} pixels`, seen);
      });
      await seen.context().close();
      assert.deepEqual(told, []);
    });
  }
  await check("two tenants see their own runs and folders alone", async () => {
    const hersAlone = join(work, "shared");
    mkdirSync(hersAlone);
    const shared = await startServer({ keys: ["alice", "bob"], runs: [hersAlone] });
    try {
      assert.ok(!shared.studio.includes("token"));
      const hers = await startRun(shared.url, { apiKey: "tml-alice", displayName: "hers" });
      const his = await startRun(shared.url, { apiKey: "tml-bob", displayName: "his" });
      await hers.steps(1);
      await his.steps(1);
      writeCookbookFolder(join(hersAlone, "private"), hers.id);
      writeEvaluation(join(hersAlone, "evals", "private"), `tinker://${hers.id}/sampler_weights/final`);
      await writeTraces(shared.url, "tml-alice");
      const ids = { trace: (17).toString(16).padStart(32, "0") };
      const tracesOf = async (seen) =>
        (await seen.evaluate(async () => (await fetch("/api/v1/tinklet/traces")).json())).traces.length;
      for (const [name, own, other] of [
        ["alice", "hers", "his"],
        ["bob", "his", "hers"],
      ]) {
        const seen = await browser.open();
        await seen.goto(shared.studio);
        await seen.getByLabel("Key").fill("tml-nobody");
        await seen.getByRole("button", { name: "Sign in" }).click();
        await seen.getByText("must be a key of this server").waitFor();
        await seen.getByLabel("Key").fill(`tml-${name}`);
        await seen.getByRole("button", { name: "Sign in" }).click();
        await seen.getByRole("link", { name: own, exact: true }).waitFor();
        assert.equal(await seen.getByRole("link", { name: other, exact: true }).count(), 0);
        const found = await seen.evaluate(async () => (await fetch("/api/v1/tinklet/folders")).json());
        assert.equal(found.folders.length, name === "alice" ? 1 : 0);
        const measured = await seen.evaluate(async () => (await fetch("/api/v1/tinklet/evaluations")).json());
        assert.equal(measured.evaluations.length, name === "alice" ? 1 : 0);
        ids[`${name}'s evaluation`] = measured.evaluations[0]?.evaluation_id;
        ids[name] = found.folders[0]?.folder_id;
        await seen.getByText("shared/private").waitFor({ state: name === "alice" ? "visible" : "detached" });
        await seen.goto(`${shared.url}/#/folders/${ids.alice}`);
        await seen.getByText(name === "alice" ? "700 of 700 samples" : /There is no run folder/).waitFor();
        await seen.goto(`${shared.url}/#/evaluations/${ids["alice's evaluation"]}`);
        await seen.getByText(name === "alice" ? "40 of 40" : /There is no evaluation/).waitFor();
        assert.equal(await tracesOf(seen), name === "alice" ? 24 : 0);
        await seen.goto(`${shared.url}/#/traces/${ids.trace}`);
        await seen.getByText(name === "alice" ? "It arrives in 3 days." : /There is no trace/).waitFor();
        const foreign = own === "hers" ? his.id : hers.id;
        await seen.goto(`${shared.url}/#/runs/${foreign}`);
        await seen.getByRole("alert").waitFor();
        await seen.context().close();
      }
      await hers.close();
      await his.close();
    } finally {
      await shared.stop();
    }
  });
  await check("no script ran, nothing left the origin, the policy was never violated", () => {
    const real = browser.wrongs.filter((wrong) => !/axe/.test(wrong));
    assert.deepEqual(real.slice(0, 5), []);
  });
} finally {
  await alpha.close().catch(() => {});
  await beta.close().catch(() => {});
  await gamma.close().catch(() => {});
  await browser.close();
  await server.stop();
  rmSync(work, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failures.length} failed, ${Math.round((performance.now() - started) / 1000)} s`);
process.exitCode = failures.length === 0 ? 0 : 1;

/** In the page: what reaches beyond the window's right edge, except within something that scrolls by itself, and a page that scrolls sideways. */
function widerThanWindow() {
  const { documentElement: page } = document;
  const found = page.scrollWidth > page.clientWidth ? [`the page is ${page.scrollWidth} pixels wide`] : [];
  const isClipped = (element) => {
    for (let at = element.parentElement; at !== null && at !== document.body; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== "visible") return true;
    return false;
  };
  for (const element of document.querySelectorAll("body *")) {
    const { right, width } = element.getBoundingClientRect();
    if (width === 0 || right <= innerWidth + 1 || isClipped(element)) continue;
    found.push(`${element.tagName.toLowerCase()}.${element.className} ends at ${Math.round(right)}`);
  }
  return found.slice(0, 5);
}
