import { readFileSync } from "node:fs";
import * as sdk from "tinklet";
import { decodeForwardBackwardRequest } from "tinklet/wire";
import { expect, it } from "vitest";
import { listen } from "../../../packages/sdk/src/testing/stub-listener.node.ts";
import { StubServer } from "../../../packages/sdk/src/testing/stub-server.ts";
import { comparable, entry, explained, type LogEntry } from "./log.mjs";
import { newerProgram, program, stubConfig } from "./program.mjs";

const fixtureOf = (version: string) => new URL(`../../fixtures/conversation/python-${version}.json`, import.meta.url);
const fixture = fixtureOf("0.25.0");
const programs = { "0.25.0": program, "0.36.0": newerProgram } as const;

it.each(["0.25.0", "0.36.0"] as const)(
  "the same program sends the same requests as the official Python SDK %s, apart from a short, explained list",
  async (version) => {
    const log: LogEntry[] = [];
    const stub = new StubServer({
      config: stubConfig,
      onRequest: (request) => log.push(entry(request, decodeForwardBackwardRequest)),
    });
    const listener = await listen(stub);
    await programs[version](sdk, listener.url);
    await listener.close();
    const recorded = JSON.parse(readFileSync(fixtureOf(version), "utf8")) as LogEntry[];
    const { ours, theirs, idle } = comparable(log, recorded, explained[version]);
    const line = ({ method, path, body }: LogEntry) =>
      `${method} ${path} ${(body as { seqId?: number } | null)?.seqId ?? ""}`;
    expect(ours.map(line)).toEqual(theirs.map(line));
    expect(ours).toEqual(theirs);
    expect(idle).toEqual([]); // an explained difference that no longer exists must leave the list
    expect(explained[version].length).toBeLessThanOrEqual(10);
  },
  30_000,
);

it("the comparison notices a changed body, header, order or number of requests", () => {
  const recorded = JSON.parse(readFileSync(fixture, "utf8")) as LogEntry[];
  const differs = (change: (log: LogEntry[]) => unknown) => {
    const log = structuredClone(recorded) as LogEntry[];
    change(log);
    const { ours, theirs } = comparable(log, recorded);
    // The recorded log stands in for ours, so its own explained differences are taken from both sides here.
    const clean = comparable(recorded, recorded);
    return (
      JSON.stringify(ours) !== JSON.stringify(clean.ours) && JSON.stringify(theirs) === JSON.stringify(clean.theirs)
    );
  };
  const at = (path: string) => (log: LogEntry[]) => log.find((request) => request.path === path)!;
  expect(differs((log) => Object.assign(at("/optim_step")(log).body as object, { seq_id: 99 }))).toBe(true);
  expect(differs((log) => Object.assign(at("/asample")(log).headers, { accept: "x" }))).toBe(true);
  expect(differs((log) => log.pop())).toBe(true);
  expect(differs((log) => log.push(at("/get_info")(log)))).toBe(true);
  expect(differs(() => {})).toBe(false);
});
