/** The conversation with HTTP/2 for polls: the same requests as over HTTP/1.1, and the polls, and only they, over HTTP/2. */
import { readFileSync } from "node:fs";
import * as sdk from "tinklet";
import { decodeForwardBackwardRequest } from "tinklet/wire";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { StubServer } from "../../../packages/sdk/src/testing/stub-server.ts";
import { listenStubTls } from "../../../packages/sdk/src/testing/tls.node.ts";
import { comparable, entry, explained, type LogEntry, ordered } from "./log.mjs";
import { newerProgram, program, stubConfig } from "./program.mjs";

const programs = { "0.25.0": program, "0.36.0": newerProgram } as const;
const polls = new Set(["/retrieve_future", "/retrieve_futures"]);

beforeEach(() => void vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0"));
afterEach(() => void vi.unstubAllEnvs());

/** Runs a program against the stub over TLS: its requests, and which paths came over which protocol. */
async function converse(version: keyof typeof programs, http2: boolean) {
  vi.stubEnv("TINKLET_HTTP2", http2 ? "1" : "");
  const log: LogEntry[] = [];
  const stub = new StubServer({
    config: stubConfig,
    onRequest: (request) => log.push(entry(request, decodeForwardBackwardRequest)),
  });
  const paths: Record<string, Set<string>> = { "1.1": new Set(), "2.0": new Set() };
  const listener = await listenStubTls(stub, (protocol, path) =>
    paths[protocol]?.add(path.replace(/^.*\/api\/v1/, "").replace(/\?.*$/, "")),
  );
  await programs[version](sdk, listener.url);
  const { sessions } = listener.opened;
  await listener.close();
  return { log, paths, sessions };
}

it.each(["0.25.0", "0.36.0"] as const)(
  "the program of %s sends equal requests over both protocols",
  async (version) => {
    const over1 = await converse(version, false);
    const over2 = await converse(version, true);
    expect(ordered(over2.log)).toEqual(ordered(over1.log));
    expect([...(over1.paths["2.0"] as Set<string>)]).toEqual([]);
    expect(over1.sessions).toBe(0);
    const { "1.1": http1 = new Set<string>(), "2.0": http2 = new Set<string>() } = over2.paths;
    expect(http2.size).toBeGreaterThan(0);
    expect([...http2].filter((path) => !polls.has(path))).toEqual([]);
    expect([...http1].filter((path) => polls.has(path))).toEqual([]);
    // Each client of the program has one session.
    expect(over2.sessions).toBeLessThanOrEqual(3);
    const fixture = new URL(`../../fixtures/conversation/python-${version}.json`, import.meta.url);
    const recorded = JSON.parse(readFileSync(fixture, "utf8")) as LogEntry[];
    const { ours, theirs } = comparable(over2.log, recorded, explained[version]);
    expect(ours).toEqual(theirs);
  },
  30_000,
);
