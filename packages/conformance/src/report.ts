/** The report of a run, as data and as text. */
import type { Release } from "./case.ts";

/** `skipped`: an option that the case needs is missing (`restart`). */
export type Status = "pass" | "fail" | "not offered" | "skipped";

export interface CaseResult {
  readonly id: string;
  readonly reason: string;
  readonly official: string;
  /** The first release of the official SDK that uses it. */
  readonly since: Release;
  readonly status: Status;
  /** The failed check, or why the case was not run. */
  readonly message?: string;
  readonly expected?: string;
  readonly seen?: string;
  readonly ms: number;
}

export interface GroupResult {
  readonly name: string;
  readonly title: string;
  readonly cases: readonly CaseResult[];
}

export interface Report {
  readonly tool: "tinklet-conformance";
  readonly version: string;
  /** Start time of the run, ISO 8601. */
  readonly date: string;
  readonly baseUrl: string;
  readonly baseModel: string;
  /** Whether no case failed. */
  readonly passed: boolean;
  readonly totals: Readonly<Record<Status, number>>;
  /** Results per release of the official SDK, oldest first. */
  readonly releases: readonly ReleaseResult[];
  readonly ms: number;
  readonly groups: readonly GroupResult[];
}

/** Counts of the cases that a release added, without skipped cases. */
export interface ReleaseResult {
  readonly release: Release;
  readonly passed: number;
  readonly cases: number;
}

/** Computes the results per release. */
export function releasesOf(groups: readonly GroupResult[]): ReleaseResult[] {
  const byRelease = new Map<Release, { passed: number; cases: number }>();
  for (const { since, status } of groups.flatMap(({ cases }) => cases)) {
    if (status === "skipped") continue;
    const { passed, cases } = byRelease.get(since) ?? { passed: 0, cases: 0 };
    byRelease.set(since, { passed: passed + (status === "pass" ? 1 : 0), cases: cases + 1 });
  }
  return [...byRelease]
    .map(([release, counts]) => ({ release, ...counts }))
    .sort((a, b) => (a.release < b.release ? -1 : 1));
}

/** `Speaks 0.25 fully, 0.36: 31 of 40`: the first release, and all newer cases under the newest release. */
export function spoken(releases: readonly ReleaseResult[]): string {
  const first = releases.filter(({ release }) => release === "0.25");
  const newer = releases.filter(({ release }) => release !== "0.25");
  const parts = [first, newer].flatMap((some) => {
    const name = some.at(-1)?.release;
    if (name === undefined) return [];
    const passed = some.reduce((sum, each) => sum + each.passed, 0);
    const cases = some.reduce((sum, each) => sum + each.cases, 0);
    return [passed === cases ? `${name} fully` : `${name}: ${passed} of ${cases}`];
  });
  return parts.length === 0 ? "" : `Speaks ${parts.join(", ")}`;
}

/** The number of cases of each status. */
export function totalsOf(groups: readonly GroupResult[]): Record<Status, number> {
  const totals: Record<Status, number> = { pass: 0, fail: 0, "not offered": 0, skipped: 0 };
  for (const { cases } of groups) for (const { status } of cases) totals[status]++;
  return totals;
}

const indent = (label: string, value: string): string => `    ${label.padEnd(9)} ${value}`;

function failureLines({ id, reason, official, message, expected, seen }: CaseResult): string[] {
  return [
    `  FAIL        ${id}`,
    indent("why", reason),
    indent("official", official),
    ...(message === undefined ? [] : [indent("what", message)]),
    ...(expected === undefined ? [] : [indent("expected", expected)]),
    ...(seen === undefined ? [] : [indent("seen", seen)]),
  ];
}

/** Cases that were not run, grouped by reason. */
function unaskedLines(cases: readonly CaseResult[]): string[] {
  const alike = new Map<string, CaseResult[]>();
  for (const result of cases) {
    const key = `${result.status} ${result.message}`;
    alike.set(key, [...(alike.get(key) ?? []), result]);
  }
  return [...alike.values()].flatMap((results) => {
    const { status, message } = results[0]!;
    const ids = results.map(({ id }) => id).join(", ");
    return [`  ${status.padEnd(11)} ${ids}`, ...(message === undefined ? [] : [indent("because", message)])];
  });
}

/** Formats the report as text: one line per group, followed by its cases that did not pass. */
export function formatReport(report: Report): string {
  const { totals } = report;
  const count = report.groups.reduce((total, { cases }) => total + cases.length, 0);
  const width = Math.max(...report.groups.map(({ name }) => name.length), 0);
  const lines = [`Conformance of ${report.baseUrl} with ${report.baseModel}, ${report.date}`, ""];
  for (const { name, title, cases } of report.groups) {
    const passed = cases.filter(({ status }) => status === "pass").length;
    lines.push(`${name.padEnd(width)}  ${String(passed).padStart(3)}/${String(cases.length).padEnd(3)}  ${title}`);
    lines.push(...cases.filter(({ status }) => status === "fail").flatMap(failureLines));
    lines.push(...unaskedLines(cases.filter(({ status }) => status === "not offered" || status === "skipped")));
  }
  const parts = [
    `${totals.pass} passed`,
    `${totals.fail} failed`,
    `${totals["not offered"]} not offered`,
    ...(totals.skipped === 0 ? [] : [`${totals.skipped} skipped`]),
  ];
  lines.push("", `${count} cases: ${parts.join(", ")} (${(report.ms / 1000).toFixed(1)} s)`, spoken(report.releases));
  return lines.join("\n");
}
