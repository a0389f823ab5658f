/** The conformance kit against the server of a page: the groups whose routes it has. */
import { formatReport, runConformance } from "@tinklet/conformance";
import { expect, it } from "vitest";
import { startBrowserServer } from "./server.ts";
import { memoryStorage } from "./storage/memory-storage.ts";
import { nodeModel } from "./testing/node-model.ts";

/** What a page has no need for: its client never compresses. */
const absent = ["encoding/zstd-request"];

it("passes the groups encoding, sessions, idempotency, losses, sampling, errors and newer-sampling", async () => {
  await using server = await startBrowserServer({ models: [nodeModel()], storage: memoryStorage() });
  const only = ["encoding", "sessions", "idempotency", "losses", "sampling", "errors", "newer-sampling"];
  const report = await runConformance({ baseUrl: server.url, apiKey: "tml-page", fetch: server.fetch, only });
  const failed = report.groups.flatMap(({ cases }) => cases.filter(({ status }) => status === "fail"));
  expect(
    failed.map(({ id }) => id),
    formatReport(report),
  ).toEqual(absent);
  expect(report.totals.pass).toBeGreaterThan(120);
}, 600_000);
