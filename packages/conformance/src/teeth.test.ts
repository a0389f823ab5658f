/**
 * Mutation tests of the kit: for each group a deliberately broken server fails at least one case, and each deviation observed in real servers
 * fails its case.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { groups, runConformance } from "./index.ts";
import * as broken from "./testing/broken.ts";
import { type KitServer, openKitServer, type Wrapper } from "./testing/kit-server.ts";

let server: KitServer;
beforeAll(async () => {
  server = await openKitServer();
});
afterAll(() => server.close());

const variants: readonly (readonly [group: string, what: string, wrapper: () => Wrapper, fails: readonly string[]])[] =
  [
    ["routes", "runs without lora_rank", () => broken.runsWithoutRank, ["training-run"]],
    [
      "encoding",
      "JSON although protobuf was requested",
      () => broken.jsonResults,
      ["protobuf-pass-result", "protobuf-sample-result"],
    ],
    ["sessions", "heartbeats of unknown sessions succeed", () => broken.anySession, ["unknown-heartbeat"]],
    [
      "ordering",
      "requests run in order of arrival",
      broken.arrivalOrder,
      ["step-before-its-pass", "later-waits-for-earlier"],
    ],
    ["idempotency", "retries run again", broken.runsAgain, ["pass-id", "pass-runs-once", "step-runs-once"]],
    ["futures", "results can be read only once", broken.readOnce, ["read-twice", "failure-is-kept"]],
    [
      "losses",
      "means instead of sums",
      () => broken.meanReduction,
      ["gradient-scales-with-weights", "gradient-adds-over-data"],
    ],
    ["losses", "no metrics", () => broken.noMetrics, ["metrics-have-reductions"]],
    [
      "optimizer",
      "only the learning rate",
      () => broken.rateOnly,
      ["eps", "beta1", "beta2", "weight-decay", "clipping"],
    ],
    ["lora", "flags and seed dropped", () => broken.flagsIgnored, ["no-attention", "no-mlp", "no-unembedding", "seed"]],
    [
      "checkpoints",
      "snapshots change with training",
      broken.mutableSnapshots,
      ["snapshot-does-not-move", "two-snapshots"],
    ],
    ["checkpoints", "moments lost on resume", () => broken.lostOptimizer, ["exact-resume"]],
    ["sampling", "the seed ignored", () => broken.seedIgnored, ["seed"]],
    ["sampling", "top_k and top_p ignored", () => broken.filtersIgnored, ["top-k", "top-p", "top-k-one"]],
    ["errors", "4xx answered as 5xx", () => broken.serverFaults, ["unknown-base-model", "malformed-json"]],
    ["errors", "failures that hang", () => broken.failuresHang, ["unknown-loss"]],
    ["newer", "completions are repeated", () => broken.completionsAgain, ["retrieve-futures"]],
    ["newer", "heartbeats of finished sessions succeed", () => broken.anySession, ["finish-session"]],
    ["newer", "copies return the source path", () => broken.copiesNothing, ["copy-weights"]],
    ["newer", "gspo with per-token ratios", () => broken.tokenRatios, ["gspo-clips"]],
    [
      "newer-sampling",
      "scores shifted by one position",
      () => broken.scoresShifted,
      ["topk-samples", "target-log-probs", "alternative-tokens", "last-n"],
    ],
  ];

test.each(variants)("%s: %s", async (group, _what, wrapper, fails) => {
  const only = fails.map((name) => `${group}/${name}`);
  const fetch = server.fetch(wrapper());
  // Only the server that hangs gets a short deadline, so that a slow machine cannot fail the other cases.
  const deadlineMs = wrapper() === broken.failuresHang ? 1_500 : 60_000;
  const report = await runConformance({ ...server.options, fetch, only, deadlineMs });
  const seen = report.groups.flatMap(({ cases }) => cases.map(({ id, status }) => [id, status]));
  expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(only.map((id) => [id, "fail"])));
  expect(report.passed).toBe(false);
});

test("restart: a server that loses its data", async () => {
  const restart = () => server.restart({ loseData: true });
  const only = ["restart/results", "restart/checkpoints"];
  const report = await runConformance({ ...server.options, fetch: server.fetch(), only, restart, deadlineMs: 60_000 });
  expect(report.totals).toMatchObject({ pass: 0, fail: 2 });
});

test("every group has a broken variant", () => {
  const covered = new Set([...variants.map(([group]) => group), "restart"]);
  expect([...covered].sort()).toEqual(groups.map(({ name }) => name).sort());
});

test("a server of 0.25 does not offer newer features, and does not fail for it", async () => {
  const only = ["newer", "newer-sampling"];
  const report = await runConformance({ ...server.options, fetch: server.fetch(broken.asOld), only });
  const failed = report.groups.flatMap(({ cases }) => cases.filter(({ status }) => status === "fail"));
  expect(failed).toEqual([]);
  const lacking = report.groups.flatMap(({ cases }) => cases.filter(({ status }) => status === "not offered"));
  expect(lacking.length).toBeGreaterThanOrEqual(15);
  for (const { message } of lacking) expect(message).toMatch(/\S/);
});

test("a failure has the expected and the actual value", async () => {
  const only = ["losses/gradient-scales-with-weights"];
  const report = await runConformance({ ...server.options, fetch: server.fetch(broken.meanReduction), only });
  expect(report.groups[0]!.cases[0]).toMatchObject({
    expected: "4 ± 1",
    seen: expect.stringMatching(/^(1|[01]\.\d+)$/) as string,
  });
});

test("without the restart option the restart cases are skipped", async () => {
  const report = await runConformance({ ...server.options, fetch: server.fetch(), only: ["restart"] });
  expect(report.totals).toEqual({ pass: 0, fail: 0, "not offered": 0, skipped: 6 });
});
