import type { StubRequest } from "../../../packages/tinklet/src/testing/stub-server.ts";

export interface LogEntry {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: unknown;
}
export function entry(request: StubRequest, decode: (bytes: Uint8Array) => unknown): LogEntry;
export function ordered(log: readonly LogEntry[]): LogEntry[];
export const explained: readonly { readonly name: string; readonly why: string }[];
export function comparable(
  ours: readonly LogEntry[],
  theirs: readonly LogEntry[],
): { ours: LogEntry[]; theirs: LogEntry[]; idle: string[] };
