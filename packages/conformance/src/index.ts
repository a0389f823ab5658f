/** `@tinklet/conformance`: a black-box test suite for servers of the Tinker API. */
export type { Case, Group, Release } from "./case.ts";
export { groups } from "./groups/index.ts";
export {
  type CaseResult,
  formatReport,
  type GroupResult,
  type ReleaseResult,
  type Report,
  type Status,
} from "./report.ts";
export { type ConformanceOptions, conformanceVersion, runConformance } from "./run.ts";
