/** Everything whose size a client chooses has a limit where it is read: numbers, dates, strings, bodies. */
import { gzipSync } from "node:zlib";
import { compressZstd } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { describe, expect, onTestFinished, test } from "vitest";
import type { CheckpointRow } from "../store/tables/models.ts";
import { gateway, TestServer, type TestServerOptions, turnsDuring } from "../testing/test-server.ts";
import { storageUse } from "./runs/storage-use.ts";

const open = async (options?: TestServerOptions) => {
  const server = await TestServer.open(options);
  onTestFinished(() => server.close());
  return server;
};

describe("times to live", () => {
  test("beyond ten years are refused by every route, and listings still work", async () => {
    const server = await open();
    const model = await server.model();
    const save = (seq: number, body: object) => server.post("save_weights", { model_id: model, seq_id: seq, ...body });
    expect(await server.result(save(1, { path: "a", ttl_seconds: 9e12 }))).toMatchObject({
      category: "user",
      error: expect.stringContaining("ttl_seconds"),
    });
    const kept = await server.result(save(2, { path: "b", ttl_seconds: 3600 }));
    const external = { model_id: model, seq_id: 3, path: "c", ttl_seconds: 9e12 };
    expect(await server.result(server.post("save_weights_external", external))).toMatchObject({ category: "user" });
    const at = `training_runs/${model}/checkpoints/weights/b/ttl`;
    for (const ttl of [9e12, 0, -1]) expect((await server.send("PUT", at, { ttl_seconds: ttl })).status).toBe(422);
    const copy = await server.post("copy_weights", { source_path: kept.path, ttl_seconds: 9e12 });
    expect(copy.status).toBe(422);
    const listed = await server.get("checkpoints");
    expect(listed.status).toBe(200);
    expect(listed.json.checkpoints).toHaveLength(1);
  });
});

describe("billing", () => {
  test("for the longest possible period, or for invalid times, is answered at once", async () => {
    const server = await open();
    const model = await server.model();
    await server.result(server.post("save_weights", { model_id: model, seq_id: 1, path: "a" }));
    await server.clock.advance(1000);
    const answer = await server.get(
      "billing/usage/events?starting_on=-8600000000000000&ending_before=8600000000000000",
    );
    expect(answer.status).toBe(200);
    const types = answer.json.data.map(({ event_info }: { event_info: { type: string } }) => event_info.type);
    expect(types.filter((type: string) => type === "storage")).toHaveLength(1);
  });

  test("counts each hour of each checkpoint once, within and across days", () => {
    const hour = 3_600_000;
    const row = (created: number, expires: number | null, bytes: number) =>
      ({
        tenant: "t",
        session_id: "s",
        base_model: "b",
        bytes,
        created_at: created,
        expires_at: expires,
      }) as CheckpointRow;
    const rows = [row(5 * hour, null, 1e9), row(20 * hour, 80 * hour, 2e9), row(50 * hour, 51 * hour, 4e9)];
    for (const [from, to] of [
      [-1000 * hour, 100 * hour],
      [6 * hour, 7 * hour],
      [21 * hour, 50.5 * hour],
      [200 * hour, 100 * hour],
    ] as const) {
      const events = storageUse(rows, from, to);
      const sum = events.reduce(
        (total, { eventInfo }) => total + (eventInfo as { gigabyteHours: number }).gigabyteHours,
        0,
      );
      const hours = ({ created_at, expires_at }: CheckpointRow) =>
        Math.max(0, Math.min(to, expires_at ?? Infinity) - Math.max(from, created_at)) / hour;
      expect(sum).toBeCloseTo(
        rows.reduce((total, each) => total + hours(each) * (each.bytes / 1e9), 0),
        9,
      );
      expect(new Set(events.map(({ bucketStart }) => bucketStart.getTime())).size).toBe(events.length);
    }
  });

  test("for many checkpoints over many years takes no time proportional to their product", () => {
    const decade = 3650 * 86_400_000;
    const rows = Array.from({ length: 50_000 }, (_, i) => ({
      ...({ tenant: "t", session_id: `s${i % 3}`, base_model: "b", bytes: 1, expires_at: null } as CheckpointRow),
      created_at: i,
    }));
    expect(storageUse(rows, 0, decade)).toHaveLength(10_000);
  });
});

describe("bodies", () => {
  const gzip = { "content-encoding": "gzip" };
  const packed = (text: string) => new Uint8Array(gzipSync(text));
  const json = { "content-type": "application/json" };

  test("JSON whose parsed form would take many times its bytes is refused before it is parsed", async () => {
    const server = await open();
    const objects = packed(`{"model_id":"m","seq_id":1,"forward_input":[${"{},".repeat(3_000_000)}{}]}`);
    const keys = packed(`{${Array.from({ length: 600_000 }, (_, i) => `"k${i}":1`).join(",")}}`);
    for (const body of [objects, keys]) {
      const before = process.memoryUsage().heapUsed;
      const answer = await server.post("forward", body, { ...gzip, ...json });
      expect(answer.status).toBe(413);
      expect(answer.json.code).toBe("json_too_large");
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(100e6);
    }
  });

  test("JSON with too many elements is refused before it is parsed; long lists of tokens are accepted", async () => {
    const server = await open();
    const junk = packed(`{"model_id":"m","seq_id":1,"junk":[${"0,".repeat(8_000_000)}0]}`);
    for (const path of ["forward", "asample"]) {
      const answer = await server.post(path, junk, { ...gzip, ...json });
      expect(answer.status).toBe(413);
      expect(answer.json).toMatchObject({ code: "json_too_large", detail: expect.stringContaining("elements") });
    }
    const tokens = `[${"7,".repeat(999_999)}7]`;
    const sample = `{"base_model":"test/model","prompt":{"chunks":[{"tokens":${tokens}}]},"sampling_params":{}}`;
    expect((await server.post("asample", packed(sample), { ...gzip, ...json })).status).toBe(200);
    const tensor = (dtype: string) => `{"data":${tokens},"dtype":"${dtype}","shape":[1000000]}`;
    const inputs = `{"target_tokens":${tensor("int64")},"weights":${tensor("float32")},"advantages":${tensor("float32")}}`;
    const datum = `{"model_input":{"chunks":[{"tokens":${tokens}}]},"loss_fn_inputs":${inputs}}`;
    const pass = `{"model_id":"m","seq_id":1,"forward_backward_input":{"data":[${datum}],"loss_fn":"cross_entropy"}}`;
    expect((await server.post("forward_backward", packed(pass), { ...gzip, ...json })).status).toBe(404);
  });

  test("decompressed bytes count while a body is decompressed, not only at its end", async () => {
    const server = await open({ limits: { bodiesBytes: 3_000_000, decompressedBytes: 50_000_000 } });
    const proto = { "content-type": "application/x-protobuf" };
    const forward = (body: Uint8Array, encoding: string) =>
      server.post("forward_backward", body, { ...proto, "content-encoding": encoding });
    // Damaged at its end: a server that counted only at the end would report the damage instead of the limit.
    const bomb = new Uint8Array(gzipSync(new Uint8Array(40_000_000))).slice(0, -8);
    expect((await forward(bomb, "gzip")).json).toMatchObject({ code: "too_many_bytes" });
    // One frame whose header announces 40 000 000 bytes, without valid contents.
    const frame = new Uint8Array(20);
    new DataView(frame.buffer).setUint32(0, 0xfd2fb528, true);
    frame[4] = 0xa0;
    new DataView(frame.buffer).setUint32(5, 40_000_000, true);
    expect((await forward(frame, "zstd")).status).toBe(429);
    expect((await forward(bomb.slice(0, 200), "gzip")).json.code).toBe("bad_encoding");
    const roomy = await open({ limits: { decompressedBytes: 5_000_000 } });
    const answer = await roomy.post("forward_backward", bomb, { ...proto, ...gzip });
    expect([answer.status, answer.json.code]).toEqual([413, "body_too_large"]);
    const model = await server.model();
    expect((await server.passResult(server.pass(model, 1))).lossFnOutputs).toHaveLength(1); // all bytes were released
  });

  test("zstd is decompressed off the main thread, within the same limits", async () => {
    const server = await open({ limits: { decompressedBytes: 30_000_000 } });
    const send = (body: Uint8Array) =>
      server.post("forward_backward", body, { "content-encoding": "zstd", "content-type": "application/x-protobuf" });
    const [fits, bomb] = [
      await compressZstd(new Uint8Array(30_000_000)),
      await compressZstd(new Uint8Array(30_000_001)),
    ];
    expect((await send(fits)).status).toBe(422); // decompressed, and then not a valid message
    const turns = await turnsDuring(() => send(fits));
    expect(turns).toBeGreaterThan(20); // on this thread the event loop would turn a few times
    expect((await send(bomb)).json).toMatchObject({
      code: "bad_encoding",
      detail: expect.stringContaining("30000000"),
    });
    expect((await send(fits.slice(0, -9))).json).toMatchObject({ code: "bad_encoding" });
  });

  test("an adapter must be sent as a form; a body of another type is refused before it is read", async () => {
    const server = await open();
    for (const type of ["application/json", "application/x-protobuf", "text/plain", undefined]) {
      let reads = 0;
      const body = new ReadableStream<Uint8Array>(
        {
          pull(controller) {
            reads++;
            controller.close();
          },
        },
        { highWaterMark: 0 },
      );
      const headers = { "x-api-key": server.key, ...omitUndefined({ "content-type": type }) };
      const init = { method: "POST", headers, body, duplex: "half" } as RequestInit;
      const answer = await server.server.fetch(new Request("http://localhost/api/v1/tinklet/import_adapter", init));
      expect([answer.status, reads], type).toEqual([415, 0]);
    }
    const form = { "content-type": "Multipart/Form-Data; boundary=edge" };
    expect((await server.post("tinklet/import_adapter", new Uint8Array(0), form)).json.code).toBe("bad_form");
  });

  test("a route of parameters accepts a megabyte, compressed or not; a route of data accepts more", async () => {
    const server = await open();
    const large = JSON.stringify({ tags: [], sdk_version: "x", extra: "x".repeat(2_000_000) });
    expect((await server.post("create_session", large)).status).toBe(413);
    expect((await server.post("create_session", packed(large), { ...gzip, ...json })).status).toBe(413);
    const tokens = Array.from({ length: 400_000 }, (_, i) => 100_000 + i);
    const sample = { base_model: "test/model", prompt: { chunks: [{ tokens }] }, sampling_params: {} };
    expect((await server.post("asample", sample)).status).toBe(200);
  });

  test("all bodies together have a limit, and the bytes of one are released with its response", async () => {
    const server = await open({ limits: { bodiesBytes: 3_000_000 } });
    const model = await server.model();
    const gate = gateway();
    /** A body of two megabytes; the second one is sent when the gate opens. */
    const slow = () =>
      new ReadableStream<Uint8Array>({
        async start(controller) {
          controller.enqueue(new Uint8Array(1_000_000));
          await gate.promise;
          controller.enqueue(new Uint8Array(1_000_000));
          controller.close();
        },
      });
    const send = () =>
      server.server.fetch(
        new Request("http://localhost/api/v1/forward_backward", {
          method: "POST",
          headers: { "x-api-key": server.key, "content-type": "application/x-protobuf" },
          body: slow(),
          duplex: "half",
        } as RequestInit),
      );
    const held = [send(), send()];
    gate.resolve();
    expect((await Promise.all(held)).map(({ status }) => status)).toContain(429);
    expect((await server.passResult(server.pass(model, 1))).lossFnOutputs).toHaveLength(1);
    expect((await send()).status).not.toBe(429);
  });
});

describe("listings", () => {
  test("of many sessions are read in pages, and a search continues from its cursor", async () => {
    const server = await open();
    const ids: string[] = [];
    for (let i = 0; i < 1100; i++) {
      const name = i === 3 ? "Needle" : "hay";
      if (i % 3 === 0) server.clock.jump(1);
      ids.push(
        (await server.post("create_session", { tags: [], sdk_version: "x", display_name: name })).json.session_id,
      );
    }
    const search = async (body: object) => (await server.post("sessions/search", body)).json;
    const seen: string[] = [];
    for (let cursor: unknown = null, calls = 0; calls < 10; calls++) {
      const found = await search({ limit: 200, cursor });
      seen.push(...found.sessions.map(({ session_id }: { session_id: string }) => session_id));
      cursor = found.next_cursor ?? null;
      if (cursor === null) break;
    }
    expect(seen.sort()).toEqual(ids.sort());
    const first = await search({ display_name: "needle" });
    expect(first.sessions).toHaveLength(0);
    const second = await search({ display_name: "needle", cursor: first.next_cursor });
    expect(second.sessions.map(({ display_name }: { display_name: string }) => display_name)).toEqual(["Needle"]);
    expect(second.next_cursor ?? null).toBeNull();
    expect((await server.post("sessions/search", { cursor: { last_created_at: "never" } })).status).toBe(422);
  });
});

describe("numbers, strings and paths", () => {
  test("that the database cannot store are a 4xx that names the field", async () => {
    const server = await open();
    const session = await server.session();
    const made = await server.post("create_sampling_session", {
      session_id: session,
      sampling_session_seq_id: 0,
      base_model: "test/model",
    });
    const sampler = JSON.stringify(made.json.sampling_session_id);
    for (const seq of ["9223372036854775808", "99999999999999999999999", "-1"]) {
      const body = `{"prompt":{"chunks":[{"tokens":[1]}]},"sampling_params":{},"sampling_session_id":${sampler},"seq_id":${seq}}`;
      const answer = await server.post("asample", body);
      expect(answer.status, seq).toBe(422);
      expect(answer.json.detail).toContain("seq_id");
    }
    for (const path of ["tinklet/samples/%zz/tokens", "sessions/%zz", "training_runs/%ff/checkpoints"]) {
      expect((await server.get(path)).status, path).toBe(404);
    }
  });

  test("that are too long are a 422 that names the field", async () => {
    const server = await open();
    const session = await server.session();
    const long = "x".repeat(1001);
    const base = { tags: [], sdk_version: "1" };
    for (const field of ["display_name", "project_id"]) {
      const answer = await server.post("create_session", { ...base, [field]: long });
      expect(answer.status).toBe(422);
      expect(answer.json.detail).toContain(field);
    }
    expect((await server.send("PUT", `sessions/${session}/project`, { project_id: long })).status).toBe(422);
    const notes = { note: "x".repeat(70_000) };
    const model = { session_id: session, model_seq_id: 0, base_model: "test/model", user_metadata: notes };
    expect((await server.post("create_model", model)).status).toBe(422);
    const ready = await server.model();
    const save = { model_id: ready, seq_id: 1, path: "a", user_metadata: notes };
    expect((await server.post("save_weights", save)).status).toBe(422);
  });
});
