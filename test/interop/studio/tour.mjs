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
import { openFolder } from "./official.mjs";
import { takePictures } from "./pictures.mjs";
import { hostileTexts, openBrowser, startRun, startServer, writeCookbookFolder, writeExampleFolder } from "./world.mjs";

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
writeCookbookFolder(folder, alpha.id);
writeExampleFolder(join(work, "runs", "sums"), await alpha.trainer.getTokenizer());
await server.stop();
server = await startServer({ dataDir, port: server.port, runs: [join(work, "runs")] });
const page = await browser.open();
const go = async (place) => {
  await page.goto(`${server.url}/#${place}`);
  await page.locator("main h1, main .notice").first().waitFor();
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
  await check("the first page is at most 150 kB", () => {
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
    assert.ok(size <= 150_000, `${size} bytes`);
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
  const saved = await alpha.trainer.saveWeightsForSampler("after");
  await alpha.trainer.saveState("state");
  await check("two models answer side by side, as they write", async () => {
    await go(`/playground?model=${encodeURIComponent("tinklet/base")}&model=${encodeURIComponent(saved.path)}`);
    await page.getByLabel("Message").fill("What is the capital of Spain?");
    await page.getByLabel("Tokens", { exact: true }).fill("24");
    await page.getByRole("button", { name: "Ask" }).click();
    for (const number of [1, 2]) {
      const answer = page.getByRole("article", { name: `Answer ${number}` });
      await until("an answer", async () => /[1-9]\d* tokens/.test(await answer.textContent()));
    }
    await until("both ends", async () => (await page.locator(".answer[aria-busy=true]").count()) === 0);
    const [first, second] = await page.locator(".answer").allInnerTexts();
    assert.ok(first.length > 0 && second.length > 0 && first !== second, JSON.stringify([first, second]));
  });
  await check("a checkpoint is deleted after a question, and kept by Escape", async () => {
    await go("/checkpoints");
    const card = page.getByTestId("checkpoints").getByRole("listitem").filter({ hasText: "state" });
    await card.getByRole("button", { name: "Publish" }).click();
    await card.getByText("Public", { exact: true }).waitFor();
    await card.getByRole("button", { name: /^Delete/ }).click();
    await page.getByRole("dialog").getByText("Delete this checkpoint?").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await card.count(), 1);
    await card.getByRole("button", { name: /^Delete/ }).click();
    await page.getByRole("button", { name: "Delete permanently" }).click();
    await page.getByText("The checkpoint was deleted.").waitFor();
    await until("it is gone", async () => (await card.count()) === 0);
  });
  await check("a folder of the official cookbook: curves, rollouts, the histogram filters", async () => {
    await go("/runs");
    await page.getByRole("link", { name: "runs/official" }).click();
    await page.getByRole("img", { name: /^env\/all\/reward\/total by step.*60 points/ }).waitFor();
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
    await page.getByText("Compare with other folders").click();
    await page.getByRole("checkbox", { name: /runs\/official/ }).check();
    await page.getByRole("list", { name: "Runs in the charts" }).getByText("runs/official").waitFor();
    await page.getByText(/Configuration: \d+ differences?/).waitFor();
    await page.reload();
    await page.getByRole("img", { name: /^env\/all\/reward\/total by step.*80 points.*60 points/ }).waitFor();
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
    await page.getByRole("button", { name: "Copy export command" }).first().click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /^tinklet export tinker:\/\/\S+ --format gguf$/);
  });
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
    await until("the runs", async () => (await page.getByTestId("runs").getByRole("row").count()) > 20);
  });
  await check("a thousand hostile texts through every text of every page", async () => {
    const { folders } = await page.evaluate(async () => (await fetch("/api/v1/tinklet/folders")).json());
    const { folder_id: folderId, rollouts } = folders.find(({ name }) => name === "runs/official");
    const told = { runId: alpha.id, folderId, rolloutFile: rollouts[0] };
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
      await go("/runs");
      await page.getByRole("link", { name: "runs/official" }).click();
      await page.getByTestId("rollout-count").waitFor();
      await judge("folder");
      await page.getByText("Compare with other folders").waitFor();
      await page.goto(`${server.url}/#/runs`);
      await page.getByRole("link", { name: "runs/sums" }).click();
      await page.locator(".samples summary").first().click();
      await page.getByRole("button", { name: /^Compare group/ }).click();
      await page.getByTestId("group").waitFor();
      await page.getByText("Training data, as the model sees it").click();
      await page.getByTestId("training-data").waitFor();
      for (const colouring of ["Log-prob", "Advantage", "KL"]) {
        await page.getByLabel(colouring, { exact: true }).check({ force: true });
        await judge(`tokens by ${colouring}`);
      }
      await go("/checkpoints");
      await page
        .getByRole("button", { name: /^Delete/ })
        .first()
        .click();
      await page.getByRole("dialog").waitFor();
      await judge("the question before deleting");
      await page.keyboard.press("Escape");
      const outside = await browser.open({ colorScheme: colour });
      await outside.goto(`${server.url}/`);
      await outside.getByLabel("Key").waitFor();
      await judge("sign-in", outside);
      await outside.context().close();
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
      const ids = {};
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
        ids[name] = found.folders[0]?.folder_id;
        await seen
          .getByRole("link", { name: "shared/private" })
          .waitFor({ state: name === "alice" ? "visible" : "detached" });
        await seen.goto(`${shared.url}/#/folders/${ids.alice}`);
        await seen.getByText(name === "alice" ? "700 of 700 samples" : /There is no run folder/).waitFor();
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
  await browser.close();
  await server.stop();
  rmSync(work, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failures.length} failed, ${Math.round((performance.now() - started) / 1000)} s`);
process.exitCode = failures.length === 0 ? 0 : 1;
