/**
 * The kit has teeth: for each group a server that breaks its promise fails at least one of its cases, and for each deviation that
 * was seen in the wild the case that is about it fails.
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
    ["routes", "runs without their rank", () => broken.runsWithoutRank, ["training-run"]],
    [
      "encoding",
      "JSON where protobuf was asked for",
      () => broken.jsonResults,
      ["protobuf-pass-result", "protobuf-sample-result"],
    ],
    ["sessions", "heartbeats of any session", () => broken.anySession, ["unknown-heartbeat"]],
    ["ordering", "order of arrival", broken.arrivalOrder, ["step-before-its-pass", "later-waits-for-earlier"]],
    ["idempotency", "repetitions that run again", broken.runsAgain, ["pass-id", "pass-runs-once", "step-runs-once"]],
    ["futures", "results that can be read once", broken.readOnce, ["read-twice", "failure-is-kept"]],
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
    ["checkpoints", "snapshots that move", broken.mutableSnapshots, ["snapshot-does-not-move", "two-snapshots"]],
    ["checkpoints", "moments lost on resume", () => broken.lostOptimizer, ["exact-resume"]],
    ["sampling", "the seed ignored", () => broken.seedIgnored, ["seed"]],
    ["sampling", "top_k and top_p ignored", () => broken.filtersIgnored, ["top-k", "top-p", "top-k-one"]],
    ["errors", "4xx answered as 5xx", () => broken.serverFaults, ["unknown-base-model", "malformed-json"]],
    ["errors", "failures that hang", () => broken.failuresHang, ["unknown-loss"]],
    ["newer", "completions told again", () => broken.completionsAgain, ["retrieve-futures"]],
    ["newer", "heartbeats of finished sessions", () => broken.anySession, ["finish-session"]],
    ["newer", "copies that are none", () => broken.copiesNothing, ["copy-weights"]],
    ["newer", "gspo without a sequence", () => broken.tokenRatios, ["gspo-clips"]],
    [
      "newer-sampling",
      "scores at the wrong place",
      () => broken.scoresShifted,
      ["topk-samples", "target-log-probs", "alternative-tokens", "last-n"],
    ],
  ];

test.each(variants)("%s: %s", async (group, _what, wrapper, fails) => {
  const only = fails.map((name) => `${group}/${name}`);
  const fetch = server.fetch(wrapper());
  // Only what hangs on purpose gets little time: a slow machine must not make a case fail for another reason.
  const deadlineMs = wrapper() === broken.failuresHang ? 1_500 : 60_000;
  const report = await runConformance({ ...server.options, fetch, only, deadlineMs });
  const seen = report.groups.flatMap(({ cases }) => cases.map(({ id, status }) => [id, status]));
  expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(only.map((id) => [id, "fail"])));
  expect(report.passed).toBe(false);
});

test("restart: a server that forgets", async () => {
  const restart = () => server.restart({ loseData: true });
  const only = ["restart/results", "restart/checkpoints"];
  const report = await runConformance({ ...server.options, fetch: server.fetch(), only, restart, deadlineMs: 60_000 });
  expect(report.totals).toMatchObject({ pass: 0, fail: 2 });
});

test("every group has a broken variant", () => {
  const covered = new Set([...variants.map(([group]) => group), "restart"]);
  expect([...covered].sort()).toEqual(groups.map(({ name }) => name).sort());
});

test("a server of 0.25 is told what it lacks, and fails nothing for it", async () => {
  const only = ["newer", "newer-sampling"];
  const report = await runConformance({ ...server.options, fetch: server.fetch(broken.asOld), only });
  const failed = report.groups.flatMap(({ cases }) => cases.filter(({ status }) => status === "fail"));
  expect(failed).toEqual([]);
  const lacking = report.groups.flatMap(({ cases }) => cases.filter(({ status }) => status === "not offered"));
  expect(lacking.length).toBeGreaterThanOrEqual(15);
  for (const { message } of lacking) expect(message).toMatch(/\S/);
});

test("a failure says what was expected and what was seen", async () => {
  const only = ["losses/gradient-scales-with-weights"];
  const report = await runConformance({ ...server.options, fetch: server.fetch(broken.meanReduction), only });
  expect(report.groups[0]!.cases[0]).toMatchObject({
    expected: "4 ± 1",
    seen: expect.stringMatching(/^(1|[01]\.\d+)$/) as string,
  });
});

test("a server that cannot be restarted is not judged by it", async () => {
  const report = await runConformance({ ...server.options, fetch: server.fetch(), only: ["restart"] });
  expect(report.totals).toEqual({ pass: 0, fail: 0, "not offered": 0, skipped: 6 });
});
