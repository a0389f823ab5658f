// Every text of every page is hostile: the page is real, and what the server tells it is replaced on its way by a thousand texts that would
// do harm if they were taken for anything but text. Each has a number, by which it is found again in what the page shows.
import assert from "node:assert/strict";
import { hostileTexts } from "./world.mjs";

/** Fields that the page steers by; everything else that is a text is replaced. */
const kept = new Set([
  "status",
  "id",
  "run_id",
  "session_id",
  "folder_id",
  "tinker_path",
  "checkpoint_type",
  "better",
  "evaluation_id",
  "trace_id",
  "span_id",
  "conversation_id",
  "kind",
  "role",
  "next_cursor",
]);
const isTime = (text) => /^\d{4}-\d\d-\d\dT/.test(text);

/** A thousand texts, one after the other, each with a mark such as `h0042h`. */
function hostileSource() {
  const texts = hostileTexts().map((text, i) => `h${String(i).padStart(4, "0")}h ${text}`);
  let at = 0;
  return { next: () => texts[at++ % texts.length], given: () => at };
}

/** A value of an answer with its texts replaced; names of maps too, where they are data. */
function spoiled(value, next, key = "") {
  if (typeof value === "string") return kept.has(key) || isTime(value) ? value : next();
  if (Array.isArray(value)) return value.map((one) => spoiled(one, next, key));
  if (typeof value !== "object" || value === null) return value;
  const isData = ["config", "user_metadata", "logs", "last", "settings"].includes(key);
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [isData ? next() : name, spoiled(inner, next, name)]),
  );
}

const repeated = (list, count) => Array.from({ length: count }, (_, i) => list[i % list.length]);

/** Opens every page with hostile answers; returns how many texts were given and how many different ones were seen. */
export async function hostileTour({ browser, server, runId, folderId, rolloutFile, evaluationId, traceId }) {
  const page = await browser.open();
  const { next, given } = hostileSource();
  const seen = new Set();
  const look = async () => {
    const shown = await page.evaluate(() => {
      const titles = [...document.querySelectorAll("[title],[aria-label]")].map(
        (one) => `${one.getAttribute("title")} ${one.getAttribute("aria-label")}`,
      );
      const values = [...document.querySelectorAll("input,textarea")].map(({ value }) => value);
      return [document.body.textContent, document.title, ...titles, ...values].join("\n");
    });
    const marks = shown.match(/h\d{4}h/g) ?? [];
    for (const mark of marks) seen.add(mark);
    return marks.length;
  };
  await page.goto(`${server.url}/`);
  await page.getByLabel("Key", { exact: true }).fill("tml-local");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  const answer = async (route, change) => {
    const url = new URL(route.request().url());
    // The page was told a hostile name of the file.
    if (url.searchParams.has("file")) url.searchParams.set("file", rolloutFile);
    const response = await route.fetch({ url: url.href });
    await route.fulfill({ response, json: change(await response.json()) });
  };
  await page.route(
    /\/api\/v1\/(tinklet\/(progress|runs|server|folders|evaluations|traces)|checkpoints|billing)/,
    (route) =>
      answer(route, (json) => {
        // Lists as long as the page shows them, each entry with texts of its own.
        if (json.runs?.length > 0)
          json.runs = repeated(json.runs, 200).map((run, i) => ({ ...run, run_id: `r${i}`, tags: ["a", "b", "c"] }));
        if (json.events?.length > 0)
          json.events = repeated(json.events, 100).map((event, i) => ({ ...event, time: new Date(i * 1000) }));
        if (json.checkpoints?.[0]?.tinker_path !== undefined)
          json.checkpoints = repeated(json.checkpoints, 50).map((one, i) => ({
            ...one,
            tinker_path: one.tinker_path.replace(/^tinker:\/\/[^/]+/, `tinker://r${i % 20}`) + i, // of runs with hostile names
          }));
        if (json.traces?.length > 0)
          json.traces = repeated(json.traces, 100).map((one, i) => ({ ...one, trace_id: `t${i}`, error: "x" }));
        if (json.conversations !== undefined) {
          const [one] = json.conversations;
          const rating = { rating: null, comment: "x", answer: "x", rated_at: new Date() };
          const turns = one.turns.map((turn) => (turn.span_id === undefined ? turn : { ...turn, rating }));
          json.conversations = ["c1", "c2", "c3"].map((id) => ({ ...one, turns, error: "x", conversation_id: id }));
        }
        if (json.evaluations?.length > 0)
          json.evaluations = repeated(json.evaluations, 100).map((one, i) => ({ ...one, evaluation_id: `e${i}` }));
        if (json.config !== undefined)
          json.config = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [i, "x"]));
        if (json.metrics !== undefined && !Array.isArray(json.metrics))
          json.metrics = Object.fromEntries(Object.entries(json.metrics).map(([, column]) => [next(), column]));
        if (json.folder !== undefined) {
          json.folder.score = { metric: "x", before: 1, after: 2, better: "higher" };
          const answer = { question: "x", before: "x", after: "x", expected: "x" };
          json.result = { answers: repeated([answer], 20) };
        }
        return spoiled(JSON.parse(JSON.stringify(json)), next);
      }),
  );
  await page.route(/\/v1\/models$/, (route) =>
    route.fulfill({ json: { data: Array.from({ length: 200 }, () => ({ id: next() })) } }),
  );
  const chunks = Array.from({ length: 1000 }, () => {
    const token = next();
    const others = [{ token: next(), logprob: -1 }];
    const logprobs = { content: [{ token, logprob: -0.5, top_logprobs: others }] };
    return `data: ${JSON.stringify({ choices: [{ delta: { content: token }, logprobs }] })}\n\n`;
  });
  await page.route(/\/v1\/chat\/completions$/, (route) =>
    route.fulfill({ contentType: "text/event-stream", body: `${chunks.join("")}data: [DONE]\n\n` }),
  );
  const counts = {};
  const visit = async (name, place, ready) => {
    await page.goto("about:blank");
    await page.goto(`${server.url}/#${place}`);
    await ready();
    counts[name] = await look();
  };
  await visit("runs", "/runs", () => page.getByTestId("runs").waitFor());
  await visit("run", `/runs/${runId}`, () => page.getByText(/^Events \(100\)/).waitFor());
  await visit("folder", `/folders/${folderId}`, () => page.getByTestId("rollout-count").waitFor());
  for (const summary of (await page.locator(".samples summary").all()).slice(0, 10)) await summary.click();
  counts.rollouts = await look();
  await page.getByTestId("before-after").waitFor();
  await visit("checkpoints", "/checkpoints", () => page.getByTestId("checkpoints").waitFor());
  await page
    .getByRole("button", { name: /^More about/ })
    .first()
    .click();
  await page.getByRole("button", { name: /^Delete/ }).click();
  await page.getByText("Delete this checkpoint?").waitFor();
  counts.dialog = await look();
  await visit("evaluations", "/evaluations", () => page.getByTestId("evaluations").waitFor());
  await visit("evaluation", `/evaluations/${evaluationId}`, () => page.getByTestId("items").waitFor());
  await visit("traces", "/traces", () => page.getByTestId("traces").waitFor());
  await visit("trace", `/traces/${traceId}`, () => page.getByTestId("conversation").first().waitFor());
  await page
    .getByRole("button", { name: /^Edit answer/ })
    .last()
    .click();
  counts.edit = await look();
  await visit("server", "/server", () => page.getByRole("heading", { name: "Models" }).waitFor());
  await visit("playground", "/playground", () => page.getByLabel("Message", { exact: true }).waitFor());
  await page.getByText("System message").click();
  await page.getByLabel("System message").fill(next());
  await page.getByLabel("Message", { exact: true }).fill(next());
  await page.getByRole("button", { name: "Send" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".answer[aria-busy=false] .token").length >= 1000);
  counts.answer = await look();
  await page.locator(".answer").focus();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("list", { name: /^Probabilities/ }).waitFor();
  counts.alternatives = await look();
  await page.getByText("Use it in code").click();
  await page.getByTestId("code").waitFor();
  counts.code = await look();
  await page.unrouteAll({ behavior: "ignoreErrors" });
  // What went wrong is told by the server, and may repeat what a stranger sent.
  await page.route(/\/(api\/v1\/tinklet|api\/v1\/checkpoints|v1\/)/, (route) =>
    route.fulfill({ status: 500, json: { detail: next(), error: { message: next() } } }),
  );
  for (const place of [
    "/runs",
    `/runs/${runId}`,
    `/folders/${folderId}`,
    "/evaluations",
    "/traces",
    `/traces/${traceId}`,
    "/checkpoints",
    "/server",
    "/playground",
  ])
    await visit(`error ${place.split("/")[1]}`, place, () => page.getByRole("alert").first().waitFor());
  // The address itself is a text that somebody else may have written.
  await page.unrouteAll({ behavior: "ignoreErrors" });
  const address = new URLSearchParams({ prompt: next(), model: next() });
  await visit("address", `/playground?${address}`, () => page.getByLabel("Message", { exact: true }).waitFor());
  const filters = new URLSearchParams({ text: next(), model: next(), tool: next() });
  await visit("filters", `/traces?${filters}`, () => page.getByText("No trace matches.").waitFor());
  await page.context().close();
  for (const [name, count] of Object.entries(counts)) assert.ok(count > 0, `${name} shows none of the texts`);
  return { given: given(), seen: seen.size, counts };
}
