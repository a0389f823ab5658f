/** Imported adapters with the real engine: the server's log-probs equal those of the engine for the same folder. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AdapterState, type Engine, openEngine } from "@tinklet/engine";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { writeTinyModel } from "../../../../engine/src/testing/tiny-model.ts";
import { baseModel, TestServer } from "../../testing/test-server.ts";

let root: string;
let engine: Engine;
let server: TestServer;
const openTiny = () => openEngine(join(root, "model"), { inThread: true, runtime: "interpreter" });

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "tinklet-import-test-"));
  await mkdir(join(root, "model"));
  await writeTinyModel(join(root, "model"));
  engine = await openTiny();
  server = await TestServer.open({ models: [{ name: baseModel, open: openTiny }] });
});
afterAll(async () => {
  await server.close();
  await engine.close();
  await rm(root, { recursive: true, force: true });
});

const tokens = [3, 1, 4, 1, 5, 9, 2, 6];
const data = [{ tokens, lossFnInputs: { target_tokens: { data: [...tokens.slice(1), 0] } } }];

/** A trained adapter as a PEFT folder; `change` edits its configuration. */
async function folder(name: string, change: Record<string, unknown> = {}): Promise<string> {
  const { adapterId } = await engine.createAdapter({ rank: 4, seed: 3, trainUnembed: false });
  for (let step = 0; step < 3; step++) {
    await engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" });
    await engine.optimStep(adapterId, { learningRate: 0.05 });
  }
  const path = join(root, name);
  await engine.savePeft(adapterId, path);
  const config = JSON.parse(await readFile(join(path, "adapter_config.json"), "utf8")) as object;
  await writeFile(join(path, "adapter_config.json"), JSON.stringify({ ...config, ...change }));
  return path;
}

async function formOf(path: string, texts: Record<string, string> = {}): Promise<FormData> {
  const form = new FormData();
  for (const file of ["adapter_config.json", "adapter_model.safetensors"]) {
    form.set(file, new Blob([await readFile(join(path, file))]), file);
  }
  for (const [name, value] of Object.entries(texts)) form.set(name, value);
  return form;
}

async function send(
  body: FormData | string,
  to: TestServer = server,
): Promise<{ status: number; json: Record<string, string> }> {
  const answer = await to.server.fetch(
    new Request("http://localhost/api/v1/tinklet/import_adapter", {
      method: "POST",
      headers: { "x-api-key": to.key },
      body,
    }),
  );
  return { status: answer.status, json: (await answer.json()) as Record<string, string> };
}

/** Log-probs of the prompt through the server, from the imported weights. */
async function served(path: string): Promise<(number | null)[]> {
  const session_id = await server.session();
  const made = await server.post("create_sampling_session", {
    session_id,
    sampling_session_seq_id: 0,
    model_path: path,
  });
  const answer = server.post("asample", {
    sampling_session_id: made.json.sampling_session_id,
    seq_id: 0,
    prompt: { chunks: [{ type: "encoded_text", tokens }] },
    sampling_params: { max_tokens: 1, temperature: 0 },
    prompt_logprobs: true,
  });
  return [...((await server.sampleResult(answer)).promptLogprobs ?? [])];
}

/** The same from the engine itself. */
async function expected(state: AdapterState | undefined): Promise<(number | null)[]> {
  const adapter = state === undefined ? {} : { adapter: await engine.importSnapshot(state) };
  const params = { maxTokens: 1, temperature: 0 };
  const { promptLogprobs } = await engine.sample({ prompt: tokens, ...adapter, params, promptLogprobs: true });
  return [null, ...promptLogprobs!.slice(1)];
}

test.each([
  ["as this engine writes it", {}],
  ["with an alpha of its own", { lora_alpha: 8 }],
])("a PEFT folder %s samples what it samples in the engine", async (name, change) => {
  const path = await folder(name, change);
  const { status, json } = await send(await formOf(path, { name: "mine", base_model: baseModel }));
  expect(status, JSON.stringify(json)).toBe(200);
  expect(json).toMatchObject({
    tinker_path: expect.stringMatching(/^tinker:\/\/s-.*:train:0\/sampler_weights\/mine$/),
    lora_rank: 4,
  });
  const wanted = await expected(await engine.readPeft(path));
  expect(await served(json["tinker_path"]!)).toEqual(wanted);
  expect(wanted).not.toEqual(await expected(undefined));
});

test("an adapter of a few modules is completed with zero ones, and can be trained further", async () => {
  const path = await folder("few");
  const whole = await engine.readPeft(path);
  const only = Object.fromEntries(Object.entries(whole.weights).filter(([name]) => /[qv]_proj/.test(name)));
  await writeSome(path, only);
  const { status, json } = await send(await formOf(path));
  expect(status, JSON.stringify(json)).toBe(200);
  const zeroed = Object.fromEntries(
    Object.entries(whole.weights).map(([name, { shape, data: values }]) => [
      name,
      name in only || name.includes("lora_A") ? { shape, data: values } : { shape, data: values.map(() => 0) },
    ]),
  );
  const attention = Object.fromEntries(Object.entries(zeroed).filter(([name]) => name.includes("self_attn")));
  const lora = { ...whole.lora, trainMlp: false };
  expect(await served(json["tinker_path"]!)).toEqual(await expected({ ...whole, lora, weights: attention }));

  const from = json["tinker_path"]!;
  expect((await server.post("weights_info", { tinker_path: from })).json).toMatchObject({
    lora_rank: 4,
    train_attn: true,
    train_mlp: false,
  });
  const session_id = await server.session();
  const body = { session_id, model_seq_id: 0, path: from };
  expect((await server.post("load_weights", { ...body, optimizer: true })).json.detail).toContain("no optimizer");
  const { model_id } = await server.result(server.post("load_weights", { ...body, optimizer: false }));
  const first = (await server.passResult(server.pass(model_id, 1, { tokens }))).metrics["loss:sum"]!;
  await server.result(server.optim(model_id, 2, 0.05));
  expect((await server.passResult(server.pass(model_id, 3, { tokens }))).metrics["loss:sum"]).toBeLessThan(first);
  // the run of the imported weights itself cannot be trained
  const run = from.slice("tinker://".length).split("/")[0]!;
  expect(await server.result(server.optim(run, 1))).toMatchObject({ category: "user" });
});

/** Rewrites a folder's weights with these tensors. */
async function writeSome(path: string, weights: AdapterState["weights"]): Promise<void> {
  let at = 0;
  const header = Object.fromEntries(
    Object.entries(weights).map(([name, { shape, data: values }]) => {
      const entry = { dtype: "F32", shape, data_offsets: [at, at + values.length * 4] };
      at += values.length * 4;
      return [name, entry];
    }),
  );
  const text = Buffer.from(JSON.stringify(header).padEnd(Math.ceil(JSON.stringify(header).length / 8) * 8));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  const values = Object.values(weights).map(({ data: v }) => Buffer.from(Float32Array.from(v).buffer));
  await writeFile(join(path, "adapter_model.safetensors"), Buffer.concat([size, text, ...values]));
}

test("base weights that PEFT saves with an adapter are ignored, unless their vocabulary differs", async () => {
  const path = await folder("beside");
  const { weights } = await engine.readPeft(path);
  const beside = (rows: number) => {
    const shape = [rows, engine.info.hiddenSize];
    return { "base_model.model.lm_head.base_layer.weight": { shape, data: new Float32Array(rows * shape[1]!) } };
  };
  await writeSome(path, { ...weights, ...beside(engine.info.vocabSize) });
  expect((await send(await formOf(path))).status).toBe(200);
  await writeSome(path, { ...weights, ...beside(engine.info.vocabSize + 1) });
  const { status, json } = await send(await formOf(path));
  expect([status, json["code"]]).toEqual([400, "bad_adapter"]);
});

test("an invalid adapter is refused with the reason, without a path of this machine", async () => {
  const path = await folder("bad");
  const refused = async (body: FormData | string) => {
    const { status, json } = await send(body);
    expect(JSON.stringify(json)).not.toContain(tmpdir());
    return [status, json["code"]];
  };
  const config = (value: unknown) => new Blob([JSON.stringify(value)]);
  const good = JSON.parse(await readFile(join(path, "adapter_config.json"), "utf8")) as Record<string, unknown>;
  const changed = async (file: string, blob: Blob, texts: Record<string, string> = {}) => {
    const form = await formOf(path, texts);
    form.set(file, blob, file);
    return form;
  };
  expect(await refused("{}")).toEqual([415, "unknown_content_type"]);
  expect(await refused(new FormData())).toEqual([422, "invalid_request"]);
  expect(await refused(await formOf(path, { name: "../up" }))).toEqual([400, "bad_request"]);
  expect(await refused(await formOf(path, { base_model: "other" }))).toEqual([400, "unknown_base_model"]);
  expect(await refused(await formOf(path, { ttl_seconds: "-1" }))).toEqual([422, "invalid_request"]);
  for (const [field, value] of [
    ["use_dora", true],
    ["r", 100_000],
    ["r", 3],
    ["peft_type", "PREFIX_TUNING"],
    ["rank_pattern", { q_proj: 2 }],
  ] as const) {
    const form = await changed("adapter_config.json", config({ ...good, [field]: value }));
    expect(await refused(form), field).toEqual([400, expect.stringMatching(/^bad_/)]);
  }
  const garbage = [new Blob(["not safetensors"]), new Blob([]), new Blob([new Uint8Array(64).fill(0xff)])];
  for (const blob of garbage) {
    expect(await refused(await changed("adapter_model.safetensors", blob))).toEqual([400, "bad_adapter"]);
  }
  expect(server.logged.filter(({ event }) => event === "http_request.failed")).toEqual([]);
});

/** A safetensors file with this header and no values. */
function headerAlone(header: object): Blob {
  const text = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  return new Blob([size, text]);
}

test("files that cannot be an adapter of the model are refused before they are read, and the engine reads no file", async () => {
  let reads = 0;
  const other = await TestServer.open({
    models: [
      {
        name: baseModel,
        open: async () => {
          const opened = await openTiny();
          const readPeft = (from: string) => {
            reads++;
            return opened.readPeft(from);
          };
          return { ...opened, readPeft };
        },
      },
    ],
  });
  onTestFinished(() => other.close());
  const path = await folder("large");
  const good = await readFile(join(path, "adapter_config.json"), "utf8");
  const attack = async (file: string, blob: Blob) => {
    const form = await formOf(path);
    form.set(file, blob, file);
    const answer = send(form, other);
    // an ordinary request at the same time
    expect((await other.get("get_server_capabilities")).status).toBe(200);
    const { status, json } = await answer;
    return [status, json["code"], json["detail"]];
  };
  const entry = (shape: number[]) => ({ dtype: "F32", shape, data_offsets: [0, 0] });
  const name = (i: number | string) => `base_model.model.model.layers.0.self_attn.q_proj${i}.lora_A.weight`;
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [name(i), entry([0])]));
  expect(await attack("adapter_config.json", new Blob([good, " ".repeat(1_000_000)]))).toEqual([
    413,
    "adapter_too_large",
    expect.stringMatching(
      /^adapter_config\.json: must be at most \d+ bytes for an adapter of test\/model, got 1000\d+\.$/,
    ),
  ]);
  expect(await attack("adapter_model.safetensors", new Blob([new Uint8Array(50_000_000)]))).toEqual([
    413,
    "adapter_too_large",
    expect.stringMatching(/^adapter_model\.safetensors: must be at most/),
  ]);
  expect(await attack("adapter_model.safetensors", headerAlone(many(1500)))).toEqual([
    400,
    "bad_adapter",
    expect.stringMatching(/the header must have at most \d+ bytes/),
  ]);
  for (const [header, reason] of [
    [many(100), /does not belong to an adapter of this model/],
    [{ [name("")]: entry([0, 1_000_000_000]) }, /has shape \[0, 1000000000\] instead of \[4, \d+\]/],
  ] as const) {
    const refused = [400, "bad_adapter", expect.stringMatching(reason)];
    expect(await attack("adapter_model.safetensors", headerAlone(header))).toEqual(refused);
  }
  expect((await send(await formOf(path), other)).status).toBe(200);
  expect(reads).toBe(0);
  expect(other.logged.filter(({ event }) => event === "http_request.failed")).toEqual([]);
});

test("a repeated import returns the same checkpoint with the latest expiry, and is not a training run", async () => {
  const path = await folder("twice");
  const first = await send(await formOf(path, { ttl_seconds: "60" }));
  const again = await send(await formOf(path, { ttl_seconds: "600" }));
  expect(again).toEqual(first);
  const from = first.json["tinker_path"]!;
  const [run = "", kind, name] = from.slice("tinker://".length).split("/");
  const listed = async () =>
    (await server.send("GET", `training_runs/${run}/checkpoints`)).json as { checkpoints: { expires_at: string }[] };
  expect((await listed()).checkpoints).toHaveLength(1);
  const end = new Date((await listed()).checkpoints[0]!.expires_at).getTime();
  expect(end - server.clock.now()).toBe(600_000);
  await send(await formOf(path, { ttl_seconds: "60" })); // a shorter time to live does not shorten the first
  expect(new Date((await listed()).checkpoints[0]!.expires_at).getTime()).toBe(end);
  await send(await formOf(path));
  await send(await formOf(path, { ttl_seconds: "60" }));
  expect((await listed()).checkpoints[0]!.expires_at).toBeUndefined(); // nor an unlimited one
  const runs = (await server.send("GET", "training_runs?limit=1000&offset=0")).json as {
    training_runs: { training_run_id: string }[];
  };
  expect(runs.training_runs.map(({ training_run_id: id }) => id)).not.toContain(run);
  expect((await send(await formOf(path, { name: "other" }))).json["tinker_path"]).not.toBe(from);
  await server.send("DELETE", `training_runs/${run}/checkpoints/${kind}/${name}`);
  expect((await send(await formOf(path))).json["tinker_path"]).toBe(from); // imported again, with the same path
  expect((await listed()).checkpoints).toHaveLength(1);
});

test("files of a running import are in the data folder, where the next start finds them", async () => {
  const dataDir = join(root, "data");
  const kept = await TestServer.open({ dataDir, models: [{ name: baseModel, open: openTiny }] });
  onTestFinished(() => kept.close());
  const form = await formOf(await folder("scratch"));
  vi.stubEnv("TMPDIR", join(root, "not there"));
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await send(form, kept)).toMatchObject({ status: 200 });
  expect(await readdir(join(dataDir, "tmp"))).toEqual([]);
});
