/**
 * Fuzzes the server with mutated valid requests, random bytes, compression bombs, wrong types, and malicious paths. Reports the responses;
 * the caller decides which are failures. A run is determined by its seed. Used by fuzz.test.ts and fuzz-main.ts.
 */
import { gzipSync } from "node:zlib";
import { compressZstd, contract } from "@tinklet/wire";
import { seededRandom } from "@tinklet/wire/entropy";
import { passBytes, TestServer } from "./test-server.ts";

export interface FuzzReport {
  readonly requests: number;
  /** Requests that were accepted by the queue. */
  readonly queued: number;
  readonly statuses: Record<string, number>;
  /** Responses with status 500 and above, with their requests. */
  readonly failures: string[];
  /** The reasons of futures that did not finish. */
  readonly hanging: string[];
  readonly heapGrowthBytes: number;
}

type Random = () => number;

const pick = <T>(draw: Random, items: readonly T[]): T => items[Math.floor(draw() * items.length)]!;

/** Values that are invalid for nearly every field. */
const oddValues: readonly unknown[] = [
  null,
  true,
  -1,
  0,
  1.5,
  1e308,
  -0,
  2 ** 53,
  2 ** 31,
  "",
  "x",
  "x".repeat(5000),
  "../../etc/passwd",
  "\0",
  "tinker://a/weights/b",
  [],
  {},
  [[]],
  { __proto__: null },
  "NaN",
  "Infinity",
  "9".repeat(40),
  ["a", 1],
  "%2e%2e%2f",
  "𝕏",
  "\ud800",
  { constructor: { prototype: 1 } },
]; // prettier-ignore

interface World {
  readonly session: string;
  /** A session that may be finished at any time. */
  readonly spare: string;
  readonly models: readonly string[];
  readonly sampler: string;
  readonly path: string;
  seq: number[];
  sampleSeq: number;
  readonly requests: string[];
}

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** A multipart form with the files of an adapter. */
const adapterForm = (config: unknown): Uint8Array =>
  new TextEncoder().encode(
    `${[
      ["name", "fuzz"],
      ["adapter_config.json", JSON.stringify(config)],
      ["adapter_model.safetensors", "\u0010\0\0\0\0\0\0\0{}"],
    ]
      .map(([name, text], i) => {
        const file = i === 0 ? "" : `; filename="${name}"`;
        return `--edge\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n${text}\r\n`;
      })
      .join("")}--edge--\r\n`,
  );

/** A valid request of a random kind. */
function valid(draw: Random, world: World): Sent {
  const which = Math.floor(draw() * world.models.length);
  const model_id = world.models[which]!;
  const next = () => ++world.seq[which]!;
  const tokens = () => Array.from({ length: 1 + Math.floor(draw() * 12) }, () => Math.floor(draw() * 400));
  const post = (path: string, body: unknown) => ({ method: "POST", path, body });
  const get = (path: string) => ({ method: "GET", path });
  const run = `training_runs/${model_id}`;
  const choices: (() => Sent)[] = [
    () =>
      post("asample", {
        sampling_session_id: world.sampler,
        seq_id: world.sampleSeq++,
        num_samples: 1,
        prompt: { chunks: [{ type: "encoded_text", tokens: tokens() }] },
        sampling_params: { max_tokens: 3, temperature: draw() },
      }),
    () => post("optim_step", { model_id, seq_id: next(), adam_params: { learning_rate: draw() } }),
    () => post("forward_backward", passBytes(model_id, next(), { tokens: tokens() })),
    () =>
      post("forward", {
        model_id,
        seq_id: next(),
        forward_input: {
          loss_fn: "cross_entropy",
          data: [
            {
              model_input: { chunks: [{ tokens: [1, 2] }] },
              loss_fn_inputs: { target_tokens: { data: [1, 2], dtype: "int64" } },
            },
          ],
        },
      }),
    () =>
      post("save_weights", { model_id, seq_id: next(), path: `f${Math.floor(draw() * 20)}`, overwrite: draw() < 0.5 }),
    () =>
      post("save_weights_for_sampler", {
        model_id,
        seq_id: next(),
        sampling_session_seq_id: 100 + Math.floor(draw() * 1000),
      }),
    () => post("save_weights_external", { model_id, seq_id: next(), path: `e${world.seq[which]}` }),
    () => post("load_weights", { model_id, seq_id: next(), path: world.path, optimizer: draw() < 0.5 }),
    () =>
      post("create_sampling_session", {
        session_id: world.session,
        sampling_session_seq_id: Math.floor(draw() * 50),
        base_model: "test/model",
      }),
    () => post("session_heartbeat", { session_id: world.session }),
    () => post("get_info", { model_id }),
    () => post("weights_info", { tinker_path: world.path }),
    () => post("sessions/search", { limit: 5, user_metadata: {}, cursor: null }),
    () => post("join_sampling_session", { sampling_session_id: world.sampler }),
    () => post("copy_weights", { source_path: world.path, destination_project_id: "p", ttl_seconds: 3600 }),
    () => post("retrieve_future", { request_id: pick(draw, world.requests) ?? "x" }),
    () => post("cancel_future", { request_id: pick(draw, world.requests) ?? "x" }),
    () => post(`sessions/${world.spare}/finish`, { reason: { type: "success" } }),
    () => ({
      ...post("tinklet/import_adapter", adapterForm({ peft_type: "LORA", r: 4, lora_alpha: 32 })),
      headers: { "content-type": "multipart/form-data; boundary=edge" },
    }),
    () =>
      post("telemetry", { events: [], platform: "x", sdk_version: "x", session_id: world.session, process_uuid: "x" }),
    () => get(`${run}/checkpoints`),
    () => get(`training_runs?limit=${Math.floor(draw() * 5)}`),
    () => get("billing/usage/events?starting_on=2026-01-01&ending_before=2026-01-02"),
    () => get(`sessions/${world.session}/trace_export`),
    () => ({ method: "PUT", path: `${run}/checkpoints/weights/f1/ttl`, body: { ttl_seconds: 1000 } }),
    () => ({ method: "POST", path: `${run}/checkpoints/weights/f${Math.floor(draw() * 20)}/publish` }),
  ]; // prettier-ignore
  return pick(draw, draw() < 0.6 ? choices.slice(0, 8) : choices)();
}

/** Replaces or adds an invalid value at a random place of a JSON value. */
function mutate(draw: Random, value: unknown): unknown {
  if (Array.isArray(value) && value.length > 0 && draw() < 0.8) {
    const at = Math.floor(draw() * value.length);
    return value.map((item, i) => (i === at ? mutate(draw, item) : item));
  }
  if (typeof value === "object" && value !== null && draw() < 0.85) {
    const entries = Object.entries(value);
    if (draw() < 0.15)
      entries.push([pick(draw, ["extra", "__proto__", "type", "seq_id", "error"]), pick(draw, oddValues)]);
    const at = Math.floor(draw() * entries.length);
    if (draw() < 0.15) entries.splice(at, 1);
    return Object.fromEntries(entries.map(([key, item], i) => [key, i === at ? mutate(draw, item) : item]));
  }
  return pick(draw, oddValues);
}

/** Truncates bytes and changes some at random. */
function spoil(draw: Random, bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice(0, draw() < 0.3 ? Math.floor(draw() * bytes.length) : bytes.length);
  for (let i = 0; i < 1 + draw() * 4 && copy.length > 0; i++)
    copy[Math.floor(draw() * copy.length)] = Math.floor(draw() * 256);
  return copy;
}

const trickPaths = [
  "../../../etc/passwd",
  "training_runs/%2e%2e/checkpoints",
  "training_runs/a/checkpoints/weights/..%2fx/archive",
  "sessions/%00",
  "samplers/%ff",
  "sessions//finish",
  "/api/v1/../v1/sessions",
  "training_runs/x/checkpoints/external_weights/y/external_weights_urls",
  "sessions/%zz/finish",
]; // prettier-ignore

export async function fuzz(
  requests: number,
  seed: number,
  settle: () => Promise<void> = async () => {},
): Promise<FuzzReport> {
  const draw = seededRandom(seed);
  const server = await TestServer.open({
    limits: { bodyBytes: 200_000, decompressedBytes: 1_000_000, gapMs: 50, pollMs: 50, pendingPerTenant: 100_000 },
  });
  const session = await server.session();
  const models = [await server.model(session, { seq: 0 }), await server.model(session, { seq: 1 })];
  const saved = await server.result(server.post("save_weights", { model_id: models[0], seq_id: 1, path: "base" }));
  const sampler = await server.post("create_sampling_session", {
    session_id: session,
    sampling_session_seq_id: 0,
    base_model: "test/model",
  });
  const world: World = {
    session,
    spare: await server.session(),
    models,
    sampler: sampler.json.sampling_session_id,
    path: saved.path,
    seq: [1, 0],
    sampleSeq: 0,
    requests: ["x"],
  };
  const bomb = {
    zstd: await compressZstd(new Uint8Array(50_000_000)),
    gzip: new Uint8Array(gzipSync(new Uint8Array(50_000_000))),
  };
  const statuses: Record<string, number> = {};
  const failures: string[] = [];
  let queued = 0;
  let heapAtStart = 0;
  let pendingFutures: string[] = [];

  const operations: readonly { readonly method: string; readonly path: string }[] = Object.values(contract);
  for (let i = 0; i < requests; i++) {
    if (i === Math.floor(requests / 5)) {
      globalThis.gc?.();
      heapAtStart = process.memoryUsage().heapUsed;
    }
    const made = valid(draw, world);
    let { method, path, body } = made;
    const headers = { ...made.headers };
    const kind = draw();
    if (kind < 0.35) {
      // unchanged
    } else if (kind < 0.75) body = body instanceof Uint8Array ? spoil(draw, body) : mutate(draw, body ?? {});
    else if (kind < 0.85) {
      const operation = pick(draw, operations);
      method = pick(draw, [operation.method, "GET", "POST", "PUT", "DELETE"]);
      path = operation.path
        .slice(1)
        .replace(/\{\w+\}/g, () => String(pick(draw, ["x", world.session, models[0]!, "a:b:c", "%00", "weights/x"])));
      if (operation === contract.watchRuns) path += "?follow=false"; // avoids an endless stream
      body = pick(draw, oddValues);
    } else if (kind < 0.9) {
      body = Uint8Array.from({ length: Math.floor(draw() * 300) }, () => Math.floor(draw() * 256));
      headers["content-type"] = pick(draw, ["application/json", "application/x-protobuf", "text/plain", ""]);
    } else if (kind < 0.93) {
      path = pick(draw, trickPaths);
    } else if (kind < 0.95) {
      path = "forward_backward";
      method = "POST";
      const how = pick(draw, ["zstd", "gzip", "br"] as const);
      headers["content-encoding"] = how;
      body = how === "br" ? bomb.gzip : draw() < 0.7 ? bomb[how] : spoil(draw, bomb[how]);
    } else if (kind < 0.97) body = "[".repeat(Math.floor(draw() * 3000)) + "{".repeat(3);
    else headers["x-api-key"] = pick(draw, ["", "tml-", "eyJhbGciOi.J9.x", "x".repeat(10_000), "tml-ü".slice(0, 4)]);
    if (method === "GET") body = undefined;
    let status: number;
    let json: { request_id?: string } | undefined;
    try {
      const answer = await ended(server, server.send(method, path, body, headers));
      status = answer.status;
      json = answer.json;
      if (status >= 500) failures.push(`${method} ${path}: ${status} ${JSON.stringify(json)} ← ${describe(body)}`);
    } catch (error) {
      // `Request` rejected a header or the URL: the server was not called
      status = 0;
      void error;
    }
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (status === 200 && typeof json?.request_id === "string") {
      queued++;
      pendingFutures.push(json.request_id);
      world.requests[i % 50] = json.request_id;
    }
    // seq_ids lost by a mutation leave gaps, which are skipped after gapMs
    if (i % 200 === 199) {
      await server.clock.advance(60);
      await settle();
      pendingFutures = pendingFutures.slice(-500);
    }
  }
  // waits until all accepted requests have finished
  const pending = async () =>
    Number(
      /^tinklet_pending_requests (\d+)$/m.exec(new TextDecoder().decode((await server.get("/metrics")).bytes))?.[1],
    );
  for (let i = 0; i < 2000 && (await pending()) > 0; i++) await server.clock.advance(1000);
  const hanging: string[] = [];
  for (const id of new Set(pendingFutures)) {
    const answer = (await ended(server, server.retrieve(id))).json;
    if (answer?.type === "try_again") hanging.push(answer.queue_state_reason);
  }
  globalThis.gc?.();
  const heapGrowthBytes = process.memoryUsage().heapUsed - heapAtStart;
  await server.close();
  return { requests, queued, statuses, failures, hanging, heapGrowthBytes };
}

/** Awaits a response; advances the fake clock for a poll that is held open. */
async function ended<T>(server: TestServer, answer: Promise<T>): Promise<T> {
  const first = await Promise.race([answer, new Promise<undefined>((resolve) => setTimeout(resolve, 20))]);
  if (first === undefined) await server.clock.advance(60);
  return answer;
}

const describe = (body: unknown): string =>
  (body instanceof Uint8Array
    ? `${body.length} bytes ${Buffer.from(body.slice(0, 60)).toString("hex")}`
    : (JSON.stringify(body) ?? "")
  ).slice(0, 300);
