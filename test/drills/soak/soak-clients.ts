/**
 * The 20 clients of the soak drill in one process: `soak-clients URL SECONDS SEED KEYS`. Some train and sample through the SDK, which
 * must carry them through every stop and kill of the server; others speak to it directly: they abort downloads and streams, send
 * garbage, vanish after submitting, and come back for results with the keys of before. What they get is held against what a calm run
 * gave (the first round of each program, before anything is stopped). Prints one line of JSON.
 */
import { createHash } from "node:crypto";
import { decodeSampleResponse } from "@tinklet/wire";
import { seededRandom } from "@tinklet/wire/entropy";
import { readTar } from "../../../packages/conformance/src/archive.ts";
import { Datum, ModelInput, ServiceClient } from "../../../packages/sdk/src/index.ts";

const [url, secondsText, seedText, keyText] = process.argv.slice(2) as [string, string, string, string];
const keys = keyText.split(",") as [string, string];
const baseModel = "tinklet/base";
const programs = 4;
let until = Number.POSITIVE_INFINITY;

const wrong: string[] = [];
const lost: string[] = [];
const counts: Record<string, number> = {};
const count = (what: string) => {
  counts[what] = (counts[what] ?? 0) + 1;
};
process.on("unhandledRejection", (error) => void wrong.push(`unhandled rejection in a client: ${String(error)}`));

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const digest = (value: unknown) => createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 16);
const tokensOf = (seed: number, length: number) => {
  const draw = seededRandom(seed);
  return Array.from({ length }, () => 3 + Math.floor(draw() * 4000));
};

// ---- clients that use the SDK

/** Trains, samples from what it trained, saves, loads and scores. The same program gives the same digest. */
async function trains(program: number, key: string): Promise<string> {
  const service = await ServiceClient.connect({ baseUrl: url, apiKey: key });
  const training = await service.createLoraTrainingClient({ baseModel, rank: 2 + (program % 3), seed: program });
  const seen: unknown[] = [];
  const datum = (seed: number) => {
    const tokens = tokensOf(seed, 17);
    return new Datum({
      modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
      lossFnInputs: { target_tokens: tokens.slice(1), weights: Array.from({ length: 16 }, () => 1) },
    });
  };
  for (let step = 0; step < 3; step++) {
    const pass = training.forwardBackward([datum(100 * program + step), datum(200 * program + step)], "cross_entropy");
    const stepped = training.optimStep({ learningRate: 0.01 });
    seen.push((await pass).metrics, (await stepped).metrics);
  }
  const sampler = await training.saveWeightsAndGetSamplingClient();
  const samplingParams = { maxTokens: 8, seed: program, temperature: 1 };
  const sample = await sampler.sample(ModelInput.fromInts(tokensOf(program, 5)), { numSamples: 2, samplingParams });
  seen.push(sample.sequences.map(({ tokens }) => tokens));
  const { path } = await training.saveState("soak");
  await training.loadStateWithOptimizer(path);
  seen.push((await training.forward([datum(7)], "cross_entropy")).metrics);
  await service.close();
  return digest(seen);
}

/** Samples from the base model. */
async function samples(program: number, key: string): Promise<string> {
  const service = await ServiceClient.connect({ baseUrl: url, apiKey: key });
  const sampler = await service.createSamplingClient({ baseModel });
  const prompt = ModelInput.fromInts(tokensOf(1000 + program, 12));
  const draws = [1, 2, 3].map((seed) =>
    sampler.sample(prompt, { numSamples: 2, samplingParams: { maxTokens: 24, seed, temperature: 1 } }),
  );
  const seen = [];
  for (const draw of draws) seen.push((await draw).sequences.map(({ tokens }) => tokens));
  await service.close();
  return digest(seen);
}

// ---- clients that speak to the server directly

interface Answer {
  readonly status: number;
  readonly bytes: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  readonly json: any;
}

/** One request, repeated while the server is away or asks for patience. */
async function call(method: string, path: string, body: unknown, key: string): Promise<Answer> {
  for (;;) {
    try {
      const answer = await fetch(path.startsWith("http") ? path : `${url}/api/v1/${path}`, {
        method,
        headers: { "x-api-key": key, "content-type": "application/json", accept: "application/x-protobuf" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const bytes = Buffer.from(await answer.arrayBuffer());
      const isJson = (answer.headers.get("content-type") ?? "").includes("json");
      if (answer.status !== 503 && answer.status !== 429) {
        return { status: answer.status, bytes, json: isJson ? JSON.parse(bytes.toString()) : undefined };
      }
    } catch {
      // it is being stopped, or started again
    }
    await pause(200);
  }
}
const post = (path: string, body: unknown, key: string) => call("POST", path, body, key);

/** What was accepted and must be answered, with the answer that was seen first. */
interface Accepted {
  readonly requestId: string;
  readonly key: string;
  readonly submission: { readonly path: string; readonly body: unknown };
  bytes?: string;
}
const accepted: Accepted[] = [];

async function submit(path: string, body: unknown, key: string): Promise<Accepted> {
  const { status, json } = await post(path, body, key);
  if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(json)}`);
  const entry = { requestId: json.request_id as string, key, submission: { path, body } };
  accepted.push(entry);
  return entry;
}

/** Polls to the end, and holds the answer against the one seen before. */
async function answerOf(entry: Accepted): Promise<Answer> {
  for (;;) {
    const answer = await post("retrieve_future", { request_id: entry.requestId }, entry.key);
    if (answer.json?.type === "try_again") continue;
    const bytes = answer.bytes.toString("base64");
    if (answer.status !== 200 || answer.json?.error !== undefined) {
      wrong.push(`${entry.submission.path}: ${answer.status} ${answer.bytes.subarray(0, 200)}`);
    }
    entry.bytes ??= bytes;
    if (entry.bytes !== bytes) wrong.push(`${entry.submission.path} ${entry.requestId}: another answer than before`);
    count("answers read directly");
    return answer;
  }
}

const newSession = async (key: string): Promise<string> =>
  (await post("create_session", { tags: [], sdk_version: "soak" }, key)).json.session_id;

/** A model of its own, and the numbers of its requests. */
async function newModel(seed: number, key: string) {
  const session = await newSession(key);
  const lora = { rank: 2, seed };
  const made = await submit(
    "create_model",
    { session_id: session, model_seq_id: 0, base_model: baseModel, lora_config: lora },
    key,
  );
  const modelId = (await answerOf(made)).json.model_id as string;
  let seq = 0;
  const send = (path: string, body: object) => submit(path, { model_id: modelId, seq_id: ++seq, ...body }, key);
  const pass = (of: number) => {
    const tokens = tokensOf(of, 13);
    const tensor = (data: number[], dtype: string) => ({ data, dtype, shape: [data.length] });
    const data = [
      {
        model_input: { chunks: [{ type: "encoded_text", tokens: tokens.slice(0, -1) }] },
        loss_fn_inputs: {
          target_tokens: tensor(tokens.slice(1), "int64"),
          weights: tensor(
            tokens.slice(1).map(() => 1),
            "float32",
          ),
        },
      },
    ];
    return send("forward_backward", { forward_backward_input: { loss_fn: "cross_entropy", data } });
  };
  return { modelId, send, pass };
}

/** Submits work and is never heard of again; what it submitted is looked after in the end. */
async function vanishes(round: number, key: string): Promise<void> {
  const { send, pass } = await newModel(round, key);
  await pass(round);
  await send("optim_step", { adam_params: { learning_rate: 0.01 } });
  count("clients that vanished");
}

const archives = new Map<number, string>();
/** Saves, begins to download and goes away in the middle; every third time it stays to the end. */
async function downloads(round: number, draw: () => number, key: string): Promise<void> {
  const program = round % programs;
  const { modelId, send, pass } = await newModel(program, key);
  await pass(program);
  await send("optim_step", { adam_params: { learning_rate: 0.01 } });
  await answerOf(await send("save_weights", { path: "soak" }));
  for (let i = 0; i < 6; i++) {
    const link = await call("GET", `training_runs/${modelId}/checkpoints/weights/soak/archive`, undefined, key);
    const stays = i % 3 === 2;
    const leave = new AbortController();
    try {
      const answer = await fetch(link.json.url, { headers: { "x-api-key": key }, signal: leave.signal });
      if (!stays) {
        const reader = answer.body!.getReader();
        if (draw() < 0.7) await reader.read();
        leave.abort();
        count("downloads aborted");
        continue;
      }
      const files = readTar(new Uint8Array(await answer.arrayBuffer()));
      const seen = digest([...files.get("adapter_model.safetensors")!]);
      archives.set(program, archives.get(program) ?? seen);
      if (archives.get(program) !== seen) wrong.push(`the archive of program ${program} differs from the first`);
      count("downloads read");
    } catch {
      // aborted, or the server was stopped under it
    }
  }
}

const streamed = new Map<number, string>();
/** Asks for a sample, watches its tokens for a moment, and comes back for the result. */
async function streams(round: number, draw: () => number, key: string): Promise<void> {
  const program = round % programs;
  const session = await newSession(key);
  const sampler = await post(
    "create_sampling_session",
    { session_id: session, sampling_session_seq_id: 0, base_model: baseModel },
    key,
  );
  const prompt = { chunks: [{ type: "encoded_text", tokens: tokensOf(2000 + program, 9) }] };
  const body = {
    sampling_session_id: sampler.json.sampling_session_id,
    seq_id: 0,
    prompt,
    num_samples: 1,
    sampling_params: { max_tokens: 48, temperature: 1, seed: program },
  };
  const entry = await submit("asample", body, key);
  const leave = new AbortController();
  setTimeout(() => leave.abort(), 20 + draw() * 300);
  try {
    for (let after = 0; ; ) {
      const path = `${url}/api/v1/tinklet/samples/${encodeURIComponent(entry.requestId)}/tokens?after=${after}`;
      const answer = await fetch(path, { headers: { "x-api-key": key }, signal: leave.signal });
      const { tokens, done } = (await answer.json()) as { tokens: unknown[]; done: boolean };
      after += tokens.length;
      if (done) break;
    }
    count("streams read");
  } catch {
    count("streams aborted");
  }
  const { bytes } = await answerOf(entry);
  // not the log-probs, whose last bit may depend on what is sampled beside it
  const seen = digest(decodeSampleResponse(bytes).sequences.map(({ tokens }) => [...tokens]));
  streamed.set(program, streamed.get(program) ?? seen);
  if (streamed.get(program) !== seen) wrong.push(`the sample of stream ${program} differs from the first`);
}
/** Comes back for results of before: the same bytes to the same key, nothing to another; sent again it is the same request. */
async function comesBack(draw: () => number): Promise<void> {
  const entry = accepted[Math.floor(draw() * accepted.length)];
  if (entry === undefined) return void (await pause(500));
  await answerOf(entry);
  const stranger = keys.find((key) => key !== entry.key)!;
  const refused = await post("retrieve_future", { request_id: entry.requestId }, stranger);
  if (refused.status !== 404 && refused.status !== 403) wrong.push(`another key got ${refused.status} for a result`);
  const { path, body } = entry.submission;
  const again = await post(path, body, entry.key);
  if (again.json?.request_id !== entry.requestId) {
    wrong.push(`${path} sent again: ${again.status} ${JSON.stringify(again.json).slice(0, 200)}`);
  }
  count("results fetched again");
  await pause(100 + draw() * 400);
}

const routes = [
  "asample",
  "forward_backward",
  "create_model",
  "retrieve_future",
  "load_weights",
  "session_heartbeat",
  "nothing",
];
/** Broken requests: each must get an answer that says so. */
async function sendsGarbage(draw: () => number, key: string): Promise<void> {
  const bytes = Buffer.from(Array.from({ length: Math.floor(draw() * 400) }, () => Math.floor(draw() * 256)));
  const deep = `${"[".repeat(2000)}${"]".repeat(2000)}`;
  const escaped = `{"a":1234567890123456"${'\\"'.repeat(20_000)}`;
  const body = [bytes, "{", deep, escaped, '{"model_id":7,"seq_id":-1}', '{"request_id":"x"}'][Math.floor(draw() * 6)]!;
  const types = ["application/json", "application/x-protobuf", "text/plain"];
  const encodings = [undefined, "gzip", "zstd"];
  const encoding = encodings[Math.floor(draw() * 3)];
  try {
    const answer = await fetch(`${url}/api/v1/${routes[Math.floor(draw() * routes.length)]}`, {
      method: "POST",
      headers: {
        "x-api-key": draw() < 0.8 ? key : "nonsense",
        "content-type": types[Math.floor(draw() * 3)]!,
        ...(encoding === undefined ? {} : { "content-encoding": encoding }),
      },
      body,
    });
    await answer.arrayBuffer();
    if (answer.status >= 500 && answer.status !== 503) wrong.push(`garbage got ${answer.status}`);
    if (answer.status === 200) wrong.push("garbage was accepted");
    count("garbage refused");
  } catch {
    // the server was stopped under it
  }
  await pause(20 + draw() * 60);
}

// ---- all of them

/** A calm run of every program, before anything is stopped. */
const expected: { trains: string[]; samples: string[] } = { trains: [], samples: [] };
for (let program = 0; program < programs; program++) {
  expected.trains.push(await trains(program, keys[0]));
  expected.samples.push(await samples(program, keys[0]));
}
process.stdout.write("calm\n");
until = Date.now() + Number(secondsText) * 1000;

/** Goes on until time is up. Whatever is thrown is a request that was not answered. */
async function client(
  name: string,
  id: number,
  round: (draw: () => number, n: number) => Promise<void>,
): Promise<void> {
  const draw = seededRandom(Number(seedText) * 1000 + id);
  for (let n = 0; Date.now() < until; n++) {
    try {
      await round(draw, n);
      count(`rounds of ${name}`);
    } catch (error) {
      lost.push(`${name} ${id}, round ${n}: ${String(error)}`);
      await pause(1000);
    }
  }
}
const compared =
  (name: "trains" | "samples", run: (program: number, key: string) => Promise<string>, key: string) =>
  async (draw: () => number): Promise<void> => {
    const program = Math.floor(draw() * programs);
    const seen = await run(program, key);
    if (seen !== expected[name][program]) wrong.push(`${name}, program ${program}: another result than the calm run`);
  };
const all: Promise<void>[] = [];
const add = (name: string, number: number, round: (id: number) => (draw: () => number, n: number) => Promise<void>) => {
  for (let i = 0; i < number; i++) all.push(client(name, all.length, round(all.length)));
};
const keyOf = (id: number) => keys[id % 2]!;
add("trains", 7, (id) => compared("trains", trains, keyOf(id)));
add("samples", 4, (id) => compared("samples", samples, keyOf(id)));
add("downloads", 2, (id) => (draw, n) => downloads(n, draw, keyOf(id)));
add("streams", 2, (id) => (draw, n) => streams(n, draw, keyOf(id)));
add("garbage", 2, (id) => (draw) => sendsGarbage(draw, keyOf(id)));
add("vanishes", 1, (id) => async (draw, n) => {
  await vanishes(n, keyOf(id));
  await pause(1000 + draw() * 2000);
});
add("comes back", 2, () => (draw) => comesBack(draw));
await Promise.all(all);
process.stdout.write("over\n");
// What was accepted is answered, whoever asked for it.
for (const entry of accepted) await answerOf(entry);
count("clients");
counts["clients"] = all.length;
process.stdout.write(`${JSON.stringify({ wrong, lost, counts, accepted: accepted.length })}\n`);
process.exit(0);
