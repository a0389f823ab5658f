// The studio with much to show: 20 folders of 100,000 rows each. How long until the first chart of one is drawn after its link is opened
// in a browser that is signed in, and how long a zoom takes until the frame behind it. Medians; the server is the built one.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openBrowser, startServer } from "../test/studio/world.mjs";

const folders = 20;
const points = 100_000;
const rounds = 5;
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const spread = (values) => `${Math.round(Math.min(...values))}–${Math.round(Math.max(...values))}`;

export default async function studio() {
  const work = mkdtempSync(join(tmpdir(), "tinklet-studio-bench-"));
  const browser = await openBrowser();
  let server;
  try {
    for (let run = 0; run < folders; run++) {
      mkdirSync(join(work, `run-${run}`));
      const rows = Array.from(
        { length: points },
        (_, step) => `{"step":${step},"loss":${(3 / (1 + step / 5000) + Math.sin(step * run)).toFixed(4)}}\n`,
      );
      writeFileSync(join(work, `run-${run}`, "metrics.jsonl"), rows.join(""));
    }
    server = await startServer({ runs: [work] });
    const page = await browser.open();
    await page.goto(server.studio);
    await page.getByRole("link", { name: /run-7$/ }).waitFor({ timeout: 120_000 });
    const link = await page.getByRole("link", { name: /run-7$/ }).getAttribute("href");
    const first = [];
    const zoom = [];
    for (let round = 0; round < rounds; round++) {
      await page.goto("about:blank");
      const began = performance.now();
      await page.goto(`${server.url}/${link}`);
      await page.getByRole("img", { name: /^loss by step.*100000 points/ }).waitFor();
      first.push(performance.now() - began);
      await page.getByRole("img", { name: /^loss by step/ }).focus();
      zoom.push(
        await page.evaluate(async () => {
          const key = new KeyboardEvent("keydown", { key: "+", bubbles: true, cancelable: true });
          const start = performance.now();
          document.activeElement.dispatchEvent(key);
          await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
          return performance.now() - start;
        }),
      );
    }
    return {
      note: `${folders} run folders of ${points.toLocaleString("en")} rows each; Chromium and the server on the same machine.`,
      rows: [
        {
          name: "first chart after opening its link",
          value: Math.round(median(first)),
          unit: "ms",
          spread: spread(first),
          target: "≤ 1500",
        },
        {
          name: "zoom until the frame behind it",
          value: Math.round(median(zoom)),
          unit: "ms",
          spread: spread(zoom),
          target: "≤ 100",
        },
      ],
    };
  } finally {
    await browser.close();
    await server?.stop();
    rmSync(work, { recursive: true, force: true });
  }
}
