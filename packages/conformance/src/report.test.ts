import { expect, test } from "vitest";
import { type CaseResult, formatReport, type Report, releasesOf, type Status, spoken, totalsOf } from "./report.ts";

const result = (id: string, status: Status, more: Partial<CaseResult> = {}): CaseResult => ({
  id,
  reason: "it matters",
  official: "it works",
  since: "0.25",
  status,
  ms: 1,
  ...more,
});

test("a report lists groups, failures, cases not offered with the reason, and totals", () => {
  const groups = [
    {
      name: "losses",
      title: "losses are sums",
      cases: [
        result("losses/sum", "pass"),
        result("losses/scale", "fail", { message: "effect of four", expected: "4", seen: "1.007" }),
        result("losses/odd", "not offered", { message: "the server refuses it", since: "0.34" }),
      ],
    },
    {
      name: "restart",
      title: "nothing is lost",
      cases: ["restart/a", "restart/b"].map((id) => result(id, "skipped", { message: "no way to restart" })),
    },
  ];
  const totals = totalsOf(groups);
  expect(totals).toEqual({ pass: 1, fail: 1, "not offered": 1, skipped: 2 });
  const report: Report = {
    tool: "tinklet-conformance",
    version: "0",
    date: "2026-11-15",
    baseUrl: "http://x",
    baseModel: "m",
    passed: false,
    totals,
    releases: releasesOf(groups),
    ms: 1500,
    groups,
  };
  expect(formatReport(report).split("\n")).toEqual([
    "Conformance of http://x with m, 2026-11-15",
    "",
    "losses     1/3    losses are sums",
    "  FAIL        losses/scale",
    "    why       it matters",
    "    official  it works",
    "    what      effect of four",
    "    expected  4",
    "    seen      1.007",
    "  not offered losses/odd",
    "    because   the server refuses it",
    "restart    0/2    nothing is lost",
    "  skipped     restart/a, restart/b",
    "    because   no way to restart",
    "",
    "5 cases: 1 passed, 1 failed, 1 not offered, 2 skipped (1.5 s)",
    "Speaks 0.25: 1 of 2, 0.34: 0 of 1",
  ]);
});

test("supported releases: the first release, and all newer cases under the newest release", () => {
  expect(spoken([])).toBe("");
  expect(spoken([{ release: "0.25", passed: 2, cases: 2 }])).toBe("Speaks 0.25 fully");
  expect(
    spoken([
      { release: "0.25", passed: 241, cases: 241 },
      { release: "0.29", passed: 1, cases: 3 },
      { release: "0.36", passed: 30, cases: 37 },
    ]),
  ).toBe("Speaks 0.25 fully, 0.36: 31 of 40");
});
