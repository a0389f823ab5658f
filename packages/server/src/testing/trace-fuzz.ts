/**
 * Attacks the routes of traces: exports that are deep, huge, malformed, bombs, or have wrong ids, and requests with ids, cursors, filters
 * and expressions of other tenants. Between them another tenant is served, and each tenant sees its own traces only. A run is determined
 * by its seed.
 */
import { gzipSync } from "node:zlib";
import { seededRandom } from "@tinklet/wire/entropy";
import { encodeTraceRequest } from "@tinklet/wire/otlp";
import { hashApiKey } from "../http/access/auth.ts";
import { traceRequestOfJson } from "../traces/otlp-json.ts";
import { TestServer } from "./test-server.ts";
import { anyValue, chatExport, chatSpan, exportOf, keyValues, said } from "./trace-exports.ts";

export interface TraceFuzzReport {
  readonly statuses: Readonly<Record<string, number>>;
  /** Responses with status 500 and above other than 503. */
  readonly failures: readonly string[];
  /** Answers in which a tenant saw another's trace. */
  readonly leaks: readonly string[];
  /** Requests of the other tenant that were not answered with 200. */
  readonly unserved: readonly string[];
  readonly stored: { readonly spans: number; readonly bytes: number };
  readonly memoryGrowthBytes: number;
}

const hex = (draw: () => number, bytes: number): string =>
  Array.from({ length: bytes }, () =>
    Math.floor(draw() * 256)
      .toString(16)
      .padStart(2, "0"),
  ).join("");

/** A secret that only the victim's traces contain. */
const secret = "the-secret-of-the-victim";
export const traceFuzzLimits = {
  traceBytes: 300_000,
  traceDecompressedBytes: 600_000,
  traceParts: 20_000,
  traceSpans: 300,
  traceSpanBytes: 60_000,
  traceTextLength: 50_000,
  spansPerTrace: { count: 50, bytes: 400_000 },
  spansPerTenant: { count: 400, bytes: 3_000_000 },
};

export async function fuzzTraces(requests: number, seed: number): Promise<TraceFuzzReport> {
  const draw = seededRandom(seed);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(draw() * items.length)]!;
  const keys = ["attacker", "victim"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) }));
  const server = await TestServer.open({ apiKeys: keys, limits: traceFuzzLimits });
  const victimTrace = hex(draw, 16);
  const victimSpan = hex(draw, 8);
  server.key = "tml-victim";
  await server.post("/v1/traces", chatExport([{ traceId: victimTrace, spanId: victimSpan, prompt: secret }]));
  const bomb = new Uint8Array(gzipSync(new Uint8Array(20_000_000)));

  const deep = (levels: number): object => {
    let value: object = { intValue: 1 };
    for (let i = 0; i < levels; i++) value = { arrayValue: { values: [value] } };
    return value;
  };
  const odd = (): unknown =>
    pick([
      null,
      -1,
      1e308,
      "",
      "\u0000",
      "\ud800",
      "x".repeat(Math.floor(draw() * 80_000)),
      "[".repeat(3000),
      `${"[".repeat(60)}${"]".repeat(60)}`,
      [],
      {},
      { __proto__: { a: 1 } },
      [[[[1]]]],
      true,
      "9".repeat(400),
    ]);
  const names = [
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "ai.operationId",
    "ai.prompt.messages",
    "ai.prompt.tools",
    "ai.response.toolCalls",
    "openinference.span.kind",
    "llm.input_messages.0.message.role",
    "llm.input_messages.999999.message.contents.7.message_content.type",
    "gen_ai.prompt.0.role.a.b.c.d.e.f.g.h.i.j.k.l",
    "tinklet.token_ids",
    "tinklet.prompt_token_ids",
    "tinklet.logprobs",
    "__proto__",
    "constructor",
  ] as const;
  const span = (): object => {
    const made = chatSpan({
      traceId: draw() < 0.3 ? victimTrace : hex(draw, 16),
      prompt: [said("user", "hello"), said("assistant", "x")],
    });
    const attributes = (made as { attributes: object[] }).attributes;
    for (let i = 0; i < draw() * 4; i++) attributes.push({ key: pick(names), value: anyValue(odd() ?? "") });
    const kind = draw();
    if (kind < 0.15) return { ...made, traceId: pick(["", "0".repeat(32), "zz", "ab", "f".repeat(64)]) };
    if (kind < 0.25) return { ...made, spanId: victimSpan };
    if (kind < 0.35)
      return { ...made, attributes: [...attributes, { key: "deep", value: deep(Math.floor(draw() * 40)) }] };
    if (kind < 0.45)
      return { ...made, startTimeUnixNano: pick(["-5", "18446744073709551615", "99999999999999999999"]) };
    if (kind < 0.5) return { ...made, attributes: Array.from({ length: 1500 }, (_, i) => ({ key: `k${i}` })) };
    if (kind < 0.6) return { ...made, events: [{ name: "e", attributes: keyValues({ "gen_ai.prompt": "[{}]" }) }] };
    return made;
  };
  const spoil = (bytes: Uint8Array): Uint8Array => {
    const copy = bytes.slice(0, draw() < 0.3 ? Math.floor(draw() * bytes.length) : bytes.length);
    for (let i = 0; i < 1 + draw() * 6 && copy.length > 0; i++)
      copy[Math.floor(draw() * copy.length)] = Math.floor(draw() * 256);
    return copy;
  };
  /** Nested empty messages: two bytes of the body make one value. */
  const empties = () => {
    const count = 5000 + Math.floor(draw() * 30_000);
    const values = new Uint8Array(2 * count);
    for (let i = 0; i < values.length; i += 2) values[i] = 10;
    return values;
  };
  const anExport = (): { body: unknown; headers?: Record<string, string> } => {
    const spans = Array.from({ length: 1 + Math.floor(draw() * 8) }, span);
    const json = exportOf(spans);
    const kind = draw();
    if (kind < 0.35) return { body: json };
    if (kind < 0.55) return { body: binaryOf(json) };
    if (kind < 0.75) return { body: spoil(binaryOf(json)) };
    if (kind < 0.8)
      return { body: Uint8Array.from({ length: Math.floor(draw() * 400) }, () => Math.floor(draw() * 256)) };
    if (kind < 0.84) return { body: empties() };
    if (kind < 0.88)
      return {
        body: pick(["[".repeat(5000), "{".repeat(3), '{"resourceSpans":[[[]]]}', '{"resourceSpans":7}', "null"]),
      };
    if (kind < 0.92) return { body: draw() < 0.5 ? bomb : spoil(bomb), headers: { "content-encoding": "gzip" } };
    if (kind < 0.95) return { body: exportOf(Array.from({ length: 400 }, () => chatSpan({ prompt: "x" }))) };
    return { body: new Uint8Array(gzipSync(spoil(binaryOf(json)))), headers: { "content-encoding": "gzip" } };
  };
  const aRequest = (): { method: string; path: string; body?: unknown } => {
    const id = pick([victimTrace, victimTrace.toUpperCase(), "x", "%00", hex(draw, 16)]);
    const filter = pick([
      `cursor=${pick(["1.1", "9999999999999999.1", "-1", "a.b", ""])}`,
      `text=${secret}`,
      `regex=${encodeURIComponent(pick([secret, "(", "(a|b)*c", "\\p{L}+", "x{1,1000}"]))}`,
      `model=${encodeURIComponent(pick(["m", "%", "'; DROP TABLE traces; --"]))}`,
      `limit=${pick(["-1", "0", "1e9", "999999"])}&since=${pick(["x", "2026-01-01", "-1"])}`,
      "rating=up&error=maybe",
    ]);
    return pick<{ method: string; path: string; body?: unknown }>([
      { method: "GET", path: `tinklet/traces?${filter}` },
      { method: "GET", path: `tinklet/traces/${id}` },
      { method: "DELETE", path: `tinklet/traces/${id}` },
      {
        method: "POST",
        path: `tinklet/traces/${id}/rating`,
        body: { span_id: pick([victimSpan, "x"]), rating: pick(["up", "x", null]), answer: odd() },
      },
      {
        method: "POST",
        path: "tinklet/traces/export",
        body: {
          format: pick(["sft", "dpo", "tokens", "x"]),
          trace_ids: pick([[victimTrace], ["x", "'"], odd(), undefined]),
          cursor: pick([undefined, "1.1", "zz"]),
        },
      },
    ]);
  };

  const statuses: Record<string, number> = {};
  const failures: string[] = [];
  const leaks: string[] = [];
  const unserved: string[] = [];
  let memoryAtStart = 0;
  for (let i = 0; i < requests; i++) {
    if (i === Math.floor(requests / 4)) {
      globalThis.gc?.();
      memoryAtStart = process.memoryUsage.rss();
    }
    server.key = "tml-attacker";
    const isExport = draw() < 0.7;
    const { method, path, body, headers } = isExport
      ? { method: "POST", path: "/v1/traces", ...anExport() }
      : { headers: {}, body: undefined, ...aRequest() };
    let answer: Awaited<ReturnType<TestServer["send"]>>;
    try {
      answer = await server.send(method, path, method === "GET" ? undefined : body, headers);
    } catch {
      continue; // `Request` rejected the URL or a header: the server was not called
    }
    statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
    const text = new TextDecoder().decode(answer.bytes);
    if (answer.status >= 500 && answer.status !== 503)
      failures.push(`${method} ${path}: ${answer.status} ${text.slice(0, 300)}`);
    // The attacker may have stored spans with the victim's ids, but never sees the victim's messages.
    if (text.includes(secret) && !path.includes(secret)) leaks.push(`${method} ${path}: ${text.slice(0, 300)}`);
    if (i % 20 !== 0) continue;
    server.key = "tml-victim";
    const own = await server.get(`tinklet/traces/${victimTrace}`);
    const list = await server.get("tinklet/traces");
    if (own.status !== 200 || own.json.trace.spans !== 1 || own.json.trace.rated)
      unserved.push(JSON.stringify(own.json).slice(0, 300));
    if (list.json?.traces?.length !== 1) unserved.push(JSON.stringify(list.json).slice(0, 300));
  }
  globalThis.gc?.();
  const memoryGrowthBytes = process.memoryUsage.rss() - memoryAtStart;
  server.key = "tml-attacker";
  const stored = { spans: 0, bytes: 0 };
  for (let cursor: string | undefined = ""; cursor !== undefined; ) {
    const page: { traces: { spans: number; bytes: number }[]; next_cursor?: string } = (
      await server.get(`tinklet/traces?limit=200${cursor === "" ? "" : `&cursor=${cursor}`}`)
    ).json;
    for (const { spans, bytes } of page.traces) {
      stored.spans += spans;
      stored.bytes += bytes;
    }
    cursor = page.next_cursor;
  }
  await server.close();
  return { statuses, failures, leaks, unserved, stored, memoryGrowthBytes };
}

/** The binary form; some odd values exist in JSON only. */
function binaryOf(json: object): Uint8Array {
  try {
    return encodeTraceRequest(traceRequestOfJson(JSON.parse(JSON.stringify(json))));
  } catch {
    return new Uint8Array([10, 0]);
  }
}
