import type { StubRequest } from "../../../packages/sdk/src/testing/stub-server.ts";

export interface LogEntry {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: unknown;
}
export function entry(request: StubRequest, decode: (bytes: Uint8Array) => unknown): LogEntry;
export function ordered(log: readonly LogEntry[]): LogEntry[];
export interface ExplainedDifference {
  readonly name: string;
  readonly why: string;
}
export const explained: Readonly<Record<"0.25.0" | "0.36.0", readonly ExplainedDifference[]>>;
export function comparable(
  ours: readonly LogEntry[],
  theirs: readonly LogEntry[],
  differences?: readonly ExplainedDifference[],
): { ours: LogEntry[]; theirs: LogEntry[]; idle: string[] };
