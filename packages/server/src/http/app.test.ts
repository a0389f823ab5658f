import { gunzipSync, gzipSync } from "node:zlib";
import { compressZstd } from "@tinklet/wire";
import { describe, expect, onTestFinished, test } from "vitest";
import { baseModel, passBytes, TestServer, type TestServerOptions } from "../testing/test-server.ts";

const open = async (options?: TestServerOptions) => {
  const server = await TestServer.open(options);
  onTestFinished(() => server.close());
  return server;
};
const raw = (server: TestServer, url: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
  server.server.fetch(new Request(url, { ...init, headers: { "x-api-key": "tml-a", ...headers } }));

describe("web pages of other sites cannot call the server", () => {
  test.each([
    ["http://localhost/api/v1/sessions", {}, 200],
    ["http://127.0.0.1:8471/api/v1/sessions", {}, 200],
    ["http://[::1]:8471/api/v1/sessions", {}, 200],
    ["http://evil.example/api/v1/sessions", {}, 403],
    ["http://localhost.evil.example/api/v1/sessions", {}, 403],
    ["http://localhost/api/v1/sessions", { origin: "http://evil.example" }, 403],
    ["http://localhost/api/v1/sessions", { origin: "http://localhost" }, 200],
    ["http://localhost/api/v1/sessions", { origin: "null" }, 403],
    ["http://localhost/api/v1/sessions", { "sec-fetch-site": "cross-site" }, 403],
  ])("%s %o → %i", async (url, headers, status) => {
    const server = await open();
    const answer = await raw(server, url, headers as Record<string, string>);
    expect(answer.status).toBe(status);
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  test("a further host name can be allowed", async () => {
    const server = await open({ allowedHosts: ["tinker.lan"] });
    expect((await raw(server, "http://tinker.lan/healthz")).status).toBe(200);
  });
});

describe("bodies", () => {
  test("zstd and gzip are decompressed; bombs, damaged bodies and unknown encodings are refused", async () => {
    const server = await open({ limits: { decompressedBytes: 100_000, bodyBytes: 50_000 } });
    const model = await server.model();
    const bytes = passBytes(model, 1);
    const zstd = await server.post("forward_backward", await compressZstd(bytes), { "content-encoding": "zstd" });
    expect((await server.passResult(zstd)).lossFnOutputs).toHaveLength(1);
    const gzip = await server.post("forward_backward", new Uint8Array(gzipSync(passBytes(model, 2))), {
      "content-encoding": "gzip",
    });
    expect((await server.passResult(gzip)).lossFnOutputs).toHaveLength(1);
    const bomb = new Uint8Array(10_000_000);
    expect(
      (await server.post("forward_backward", await compressZstd(bomb), { "content-encoding": "zstd" })).status,
    ).toBe(422);
    const gzipBomb = new Uint8Array(gzipSync(bomb));
    expect((await server.post("forward_backward", gzipBomb, { "content-encoding": "gzip" })).status).toBe(413);
    expect((await server.post("forward_backward", bytes, { "content-encoding": "zstd" })).status).toBe(422);
    expect((await server.post("forward_backward", bytes, { "content-encoding": "br" })).status).toBe(415);
    expect((await server.post("forward_backward", new Uint8Array(60_000))).status).toBe(413);
  });

  test("JSON that is broken, too deep or of the wrong kind is a 4xx with a length and a reason", async () => {
    const server = await open();
    for (const [body, status] of [
      ["{", 400],
      ["[".repeat(10_000) + "]".repeat(10_000), 400],
      ['{"tags":[]}', 422],
      ['{"tags":"x","sdk_version":"1"}', 422],
      ["null", 422],
      ["3", 422],
    ] as const) {
      const answer = await server.post("create_session", body);
      expect(answer.status, body.slice(0, 30)).toBe(status);
      expect(Number(answer.headers.get("content-length"))).toBe(answer.bytes.length);
      expect(answer.json.detail).toBeTypeOf("string");
    }
    const latin = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    expect((await server.post("create_session", latin, { "content-type": "application/json" })).status).toBe(400);
  });

  test("integers beyond 2^53 are unchanged in free-form fields", async () => {
    const server = await open();
    const big = "9007199254740993";
    const made = await server.post("create_session", `{"tags":[],"sdk_version":"1","user_metadata":{"n":${big}}}`);
    expect((await server.get(`sessions/${made.json.session_id}`)).json.user_metadata).toEqual({ n: big });
    const created = await server.post(
      "create_model",
      `{"session_id":"${made.json.session_id}","model_seq_id":0,"base_model":"${baseModel}","lora_config":{"rank":2},"user_metadata":{"n":${big}}}`,
    );
    const model = (await server.result(created)).model_id;
    expect((await server.get(`training_runs/${model}`)).json.user_metadata).toEqual({ n: big });
    const strange = `{"model_id":"${model}","seq_id":1,"path":"tinker://a/weights/b","optimizer":false,"extra":${big}}`;
    expect(await server.result(server.post("load_weights", strange))).toMatchObject({ category: "user" });
  });

  test("an unknown field is accepted, and logged once", async () => {
    const server = await open();
    for (let i = 0; i < 3; i++) {
      await server.post("create_session", { tags: [], sdk_version: "1", shoe_size: 43 });
    }
    expect(server.logged.filter(({ event }) => event === "request_field.ignored")).toHaveLength(1);
  });

  test("telemetry of SDKs before 0.24 has no process_uuid, and is accepted and logged", async () => {
    const server = await open();
    const event = {
      event: "UNHANDLED_EXCEPTION",
      event_id: "e",
      event_session_index: 1,
      severity: "ERROR",
      timestamp: "2026-01-01T00:00:00Z",
      error_type: "ValueError",
      error_message: "no such file",
    };
    const batch = { events: [event], platform: "linux", sdk_version: "0.22.0", session_id: "s" };
    const accepted = await server.post("telemetry", batch);
    expect(accepted).toMatchObject({ status: 200, json: { status: "accepted" } });
    expect(server.logged).toContainEqual(expect.objectContaining({ event: "client.failed", type: "ValueError" }));
    // any other missing field is still an error, and so is a wrong one
    const { session_id: _, ...unowned } = batch;
    expect((await server.post("telemetry", unowned)).status).toBe(422);
    expect((await server.post("telemetry", { ...batch, process_uuid: 7 })).status).toBe(422);
  });

  test("older clients: JSON passes, and results as JSON", async () => {
    const server = await open();
    const model = await server.model();
    const input = {
      loss_fn: "cross_entropy",
      data: [
        {
          model_input: { chunks: [{ tokens: [1, 2, 3] }] },
          loss_fn_inputs: {
            target_tokens: { data: [2, 3, 4], dtype: "int64", shape: [3] },
            weights: { data: [1, 1, 1], dtype: "float32", shape: [3] },
          },
        },
      ],
    };
    const accept = { accept: "application/json" };
    const forward = await server.post("forward", { model_id: model, seq_id: 1, forward_input: input });
    const pass = await server.post("forward_backward", { model_id: model, seq_id: 2, forward_backward_input: input });
    const read = async (id: string) => (await server.post("retrieve_future", { request_id: id }, accept)).json;
    const [first, second] = [await read(forward.json.request_id), await read(pass.json.request_id)];
    expect(first.loss_fn_outputs[0].logprobs).toMatchObject({ dtype: "float32", shape: [3] });
    expect(second.metrics).toEqual(first.metrics);
    const same = await server.post("forward_backward", {
      model_id: model,
      seq_id: 3,
      forward_backward_input: { ...input, data: [] },
    });
    expect(await server.result(same)).toMatchObject({ category: "user" });
    const broken = await server.post("forward_backward", { model_id: model, seq_id: 4, forward_backward_input: 7 });
    expect(await server.result(broken)).toMatchObject({ category: "user" });
  });
});

describe("probes", () => {
  test("healthz and metrics need no key on loopback, and contain no names of users", async () => {
    const server = await open();
    const model = await server.model();
    await server.result(server.optim(model, 1));
    for (const path of ["/healthz", "/api/v1/healthz"]) {
      const answer = await server.server.fetch(new Request(`http://localhost${path}`));
      expect(await answer.json()).toEqual({ status: "ok" });
    }
    const metrics = await (await server.server.fetch(new Request("http://localhost/metrics"))).text();
    expect(metrics).toContain('tinklet_requests_finished_total{kind="optim_step",outcome="done"} 1');
    expect(metrics).toMatch(/^tinklet_http_requests_total\{route="optimStep",status="200"\} 1$/m);
    expect(metrics).not.toContain(model);
    expect(metrics).not.toMatch(/tenant|local"/);
  });

  test("they need a key on other addresses", async () => {
    const server = await open({ openProbes: false });
    expect((await server.server.fetch(new Request("http://localhost/metrics"))).status).toBe(401);
  });
});

describe("checkpoints", () => {
  test("an archive is a PEFT adapter with its marker files, at a link that expires and cannot be changed", async () => {
    const server = await open();
    const model = await server.model();
    await server.result(server.post("save_weights", { model_id: model, seq_id: 1, path: "one" }));
    const { url } = (await server.get(`training_runs/${model}/checkpoints/weights/one/archive`)).json;
    const path = url.slice("http://localhost".length);
    const answer = await server.server.fetch(new Request(url)); // no key: the link itself is the permission
    const tar = gunzipSync(new Uint8Array(await answer.arrayBuffer()));
    const names: string[] = [];
    for (let at = 0; at < tar.length; ) {
      const name = tar
        .subarray(at, at + 100)
        .toString()
        .replace(/\0.*$/s, "");
      if (name === "") break;
      const size = Number.parseInt(tar.subarray(at + 124, at + 135).toString(), 8);
      names.push(name);
      if (name === "adapter_config.json") {
        const config = JSON.parse(tar.subarray(at + 512, at + 512 + size).toString());
        expect(config).toMatchObject({
          peft_type: "LORA",
          r: 4,
          lora_alpha: 32,
          target_modules: ["q_proj"],
          base_model_name_or_path: baseModel,
        });
      }
      at += 512 + Math.ceil(size / 512) * 512;
    }
    expect(names).toEqual(["adapter_config.json", "adapter_model.safetensors", "checkpoint_complete"]);
    expect((await server.get(path.replace("weights/one", "weights/two"))).status).toBe(403);
    expect((await server.get(path.replace(/expires=\d+/, "expires=9999999999"))).status).toBe(403);
    await server.clock.advance(901_000);
    expect((await server.get(path)).status).toBe(410);
  });

  test("names and paths of the file system are refused, and use up their seq_id", async () => {
    const server = await open();
    const model = await server.model();
    let seq = 1;
    for (const path of ["../x", "a/b", ".hidden", "", "a..b", "x".repeat(256), "nul\0", "ü", "a b", "-rf"]) {
      const answer = await server.post("save_weights", { model_id: model, seq_id: seq++, path });
      expect(answer.status, path).toBe(400);
    }
    for (const path of ["/etc/passwd", "tinker://../weights/x", "tinker://a/weights/../../x", "tinker://a/b/c"]) {
      const answer = await server.post("load_weights", { model_id: model, seq_id: seq++, path, optimizer: false });
      expect(await server.result(answer)).toMatchObject({ category: "user" });
    }
    expect(await server.result(server.optim(model, seq))).toHaveProperty("metrics");
  });

  test("ttl expires, overwrite replaces, deleting keeps what a model was loaded from", async () => {
    const server = await open();
    const session = await server.session();
    const model = await server.model(session);
    const save = (seq: number, body: object) => server.post("save_weights", { model_id: model, seq_id: seq, ...body });
    const list = async () =>
      (await server.get(`training_runs/${model}/checkpoints`)).json.checkpoints.map(
        (c: { checkpoint_id: string }) => c.checkpoint_id,
      );
    await server.result(save(1, { path: "short", ttl_seconds: 100 }));
    const kept = await server.result(save(2, { path: "kept" }));
    expect(await server.result(save(3, { path: "kept" }))).toMatchObject({ category: "user" });
    await server.result(save(4, { path: "kept", overwrite: true }));
    const other = (await server.result(
      server.post("load_weights", { session_id: session, model_seq_id: 1, path: kept.path, optimizer: true }),
    )) as { model_id: string };
    expect((await list()).sort()).toEqual(["weights/kept", "weights/short"]);
    await server.clock.advance(120_000);
    expect(await list()).toEqual(["weights/kept"]);
    expect((await server.send("DELETE", `training_runs/${model}/checkpoints/weights/kept`)).status).toBe(200);
    expect(await list()).toEqual([]);
    server.clock.jump(3_600_000); // long enough for the model to leave the engine's memory
    await server.clock.advance(60_000);
    expect((await server.passResult(server.pass(other.model_id, 1))).lossFnOutputs).toHaveLength(1);
  });
});
