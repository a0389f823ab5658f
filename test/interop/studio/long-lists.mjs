// Lists as long as somebody has them after months: 500 runs, 2,000 checkpoints of two files, and 10,000 traces. What the server returns is
// multiplied on its way; the page then scrolls through all of it, and its tasks of the main thread are measured.
import assert from "node:assert/strict";

const [runCount, checkpointCount, traceCount] = [500, 2000, 10_000];
/** Rows that may exist at once, in a window of 900 pixels. */
const maxRows = 60;

/** @returns one line of figures for each list */
export async function longLists({ browser, server }) {
  const page = await browser.open();
  // Time of the page's thread, not of the clock: the machine may do something else.
  const profiler = await page.context().newCDPSession(page);
  await profiler.send("Performance.enable", { timeDomain: "threadTicks" });
  const taskMs = async () => {
    const { metrics } = await profiler.send("Performance.getMetrics");
    return 1000 * metrics.find(({ name }) => name === "TaskDuration").value;
  };
  const lines = [];
  await page.goto(`${server.url}/`);
  await page.getByLabel("Key", { exact: true }).fill("tml-local");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  const paged = (route, all, key) => {
    const url = new URL(route.request().url());
    const [offset, limit] = [Number(url.searchParams.get("offset") ?? 0), Number(url.searchParams.get("limit"))];
    const cursor = { offset, limit, total_count: all.length };
    return route.fulfill({ json: { [key]: all.slice(offset, offset + limit), cursor } });
  };
  const [run] = (await page.evaluate(async () => (await fetch("/api/v1/tinklet/progress?limit=1")).json())).runs;
  const runs = Array.from({ length: runCount }, (_, i) => ({
    ...run,
    run_id: `s-${i}:train:0`,
    name: `run-${i}`,
    last_request_at: new Date(Date.now() - i * 60_000).toISOString(),
    sparkline: Array.from({ length: 48 }, (_, at) => Math.sin(at * i)),
  }));
  const files = Array.from({ length: checkpointCount * 2 }, (_, i) => {
    const checkpoint = Math.floor(i / 2);
    const id = `${i % 2 === 0 ? "weights" : "sampler_weights"}/${String(checkpoint).padStart(6, "0")}`;
    return {
      ...{ checkpoint_id: id, checkpoint_type: i % 2 === 0 ? "training" : "sampler" },
      ...{ tinker_path: `tinker://s-${Math.floor(checkpoint / 20)}:train:0/${id}`, size_bytes: 1e6, public: false },
      time: new Date(Date.now() - checkpoint * 60_000).toISOString(),
    };
  });
  await page.route(/\/tinklet\/progress/, (route) => paged(route, runs, "runs"));
  await page.route(/\/tinklet\/folders$/, (route) => route.fulfill({ json: { folders: [] } }));
  await page.route(/\/api\/v1\/checkpoints/, (route) => paged(route, files, "checkpoints"));
  const {
    traces: [trace],
  } = await page.evaluate(async () => (await fetch("/api/v1/tinklet/traces?limit=1")).json());
  const traces = Array.from({ length: traceCount }, (_, i) => ({ ...trace, trace_id: `t${i}`, prompt: `run-${i}` }));
  await page.route(/\/tinklet\/traces/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const [from, limit] = [Number(query.get("cursor") ?? 0), Number(query.get("limit"))];
    const next = from + limit < traces.length ? { next_cursor: String(from + limit) } : {};
    return route.fulfill({ json: { traces: traces.slice(from, from + limit), ...next } });
  });
  for (const [name, place, rows] of [
    ["runs", "/runs", runCount],
    ["checkpoints", "/checkpoints", checkpointCount + checkpointCount / 20],
    ["traces", "/traces", traceCount], // loaded page by page: the number of rows is known at the end
  ]) {
    await page.goto("about:blank");
    await page.goto(`${server.url}/#${place}`);
    const table = page.getByTestId(name);
    await table.getByRole("link", { name: "run-0", exact: true }).waitFor(); // the names of runs are loaded, too
    if (name !== "traces") assert.equal(await table.getAttribute("aria-rowcount"), String(rows + 1));
    const before = await taskMs();
    const found = await page.evaluate(scrollThrough);
    const each = ((await taskMs()) - before) / found.frames;
    assert.ok(found.most <= maxRows, `${found.most} rows of ${name} exist at once`);
    assert.ok(found.fewest > 10, `only ${found.fewest} rows of ${name} exist at a place`);
    assert.equal(found.last, rows + 1, `the last row of ${name}`);
    assert.equal(await table.getAttribute("aria-rowcount"), String(rows + 1));
    lines.push(
      `${name}: ${rows} rows, at most ${found.most} at once; ${each.toFixed(1)} ms of the page's thread per screen; ${found.tasks.length} tasks above 50 ms by the clock in ${found.frames} screens`,
    );
  }
  await page.context().close();
  return lines;
}

/** In the page: scrolls to the end, a little less than a window per frame. */
async function scrollThrough() {
  const tasks = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)));
  observer.observe({ entryTypes: ["longtask"] });
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  let [most, fewest, last, frames] = [0, Number.POSITIVE_INFINITY, 0, 0];
  for (let top = 0; ; top += 700) {
    scrollTo(0, top);
    await frame();
    frames++;
    const rows = [...document.querySelectorAll("tbody tr[aria-rowindex]")];
    most = Math.max(most, rows.length);
    fewest = Math.min(fewest, rows.length);
    last = Number(rows.at(-1)?.getAttribute("aria-rowindex"));
    if (top <= document.documentElement.scrollHeight) continue;
    if (document.querySelector("table[aria-rowcount='-1']") === null) break;
    top -= 700; // the next page is loading
  }
  await frame();
  observer.disconnect();
  return { tasks, most, fewest, last, frames };
}
