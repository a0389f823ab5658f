/**
 * Load on a server over the fake engine, from a process of its own: `load URL MODE`. `rate` sends small samples as fast as they are
 * taken; `mixed` is 5,000 samples of 200 sessions while two models train, and checks that none is lost and none out of order. Prints
 * one line of JSON.
 */
import { Agent, request as httpRequest } from "node:http";
import { decodeSampleResponse } from "../../packages/tinklet/src/wire/proto/tensors.ts";

const [url, mode, countText = "6000"] = process.argv.slice(2) as [string, "rate" | "mixed", string?];
const agent = new Agent({ keepAlive: true, maxSockets: 64 });
const base = new URL(url);

/** One request over a kept connection. */
function send(path: string, body: unknown, accept = "application/json"): Promise<{ status: number; bytes: Buffer }> {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const out = httpRequest(
      {
        agent,
        host: base.hostname,
        port: base.port,
        method: "POST",
        path: `/api/v1/${path}`,
        headers: {
          "x-api-key": "tml-load",
          "content-type": "application/json",
          "content-length": Buffer.byteLength(text),
          accept,
        },
      },
      (answer) => {
        const parts: Buffer[] = [];
        answer.on("data", (part: Buffer) => parts.push(part));
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, bytes: Buffer.concat(parts) }));
      },
    );
    out.on("error", reject);
    out.end(text);
  });
}
const json = async (path: string, body: unknown) => {
  const { status, bytes } = await send(path, body);
  if (status !== 200) throw new Error(`${path}: ${status} ${bytes.toString().slice(0, 300)}`);
  return JSON.parse(bytes.toString()) as Record<string, string>;
};
const quantile = (sorted: readonly number[], q: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!;

const { session_id: session } = await json("create_session", { tags: [], user_metadata: {}, sdk_version: "load" });
const newSampler = async (seq: number, of = session!) =>
  (await json("create_sampling_session", { session_id: of, sampling_session_seq_id: seq, base_model: "test/model" }))[
    "sampling_session_id"
  ]!;
const accepting: number[] = [];
const sample = async (sampler: string, seq: number, tokens: number[]) => {
  const started = performance.now();
  const { request_id: id } = await json("asample", {
    sampling_session_id: sampler,
    seq_id: seq,
    prompt: { chunks: [{ type: "encoded_text", tokens }] },
    sampling_params: { max_tokens: 8, seed: 1 },
  });
  accepting.push(performance.now() - started);
  return id!;
};
const fetched = async (id: string) => {
  for (;;) {
    const { status, bytes } = await send("retrieve_future", { request_id: id }, "application/x-protobuf");
    if (status !== 200) throw new Error(`retrieve: ${status} ${bytes.toString().slice(0, 200)}`);
    if (bytes[0] !== 0x7b) return decodeSampleResponse(bytes);
  }
};

if (mode === "rate") {
  const count = Number(countText);
  const samplers = await Promise.all(Array.from({ length: 8 }, (_, i) => newSampler(i)));
  let next = 0;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: 48 }, async () => {
      for (let i = next++; i < count; i = next++) await fetched(await sample(samplers[i % 8]!, i, [1, 2, 3, i % 400]));
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  console.log(JSON.stringify({ requestsPerSecond: (2 * count) / seconds, samplesPerSecond: count / seconds, seconds }));
} else {
  const models = await Promise.all(
    [0, 1].map(async (seq) => {
      const made = await json("create_model", {
        session_id: session,
        model_seq_id: seq,
        base_model: "test/model",
        lora_config: { rank: 4 },
      });
      return made["model_id"]!;
    }),
  );
  let training = true;
  let steps = 0;
  const trainers = models.map(async (model) => {
    for (let seq = 1; training; seq++) {
      const { request_id: id } = await json("optim_step", { model_id: model, seq_id: seq, adam_params: {} });
      await send("retrieve_future", { request_id: id });
      steps++;
    }
  });
  const sessions = await Promise.all(
    Array.from(
      { length: 200 },
      async () => (await json("create_session", { tags: [], user_metadata: {}, sdk_version: "load" }))["session_id"]!,
    ),
  );
  const samplers = await Promise.all(sessions.map((of) => newSampler(0, of)));
  const started = performance.now();
  let lost = 0;
  let disordered = 0;
  await Promise.all(
    samplers.map(async (sampler, s) => {
      const ids: string[] = [];
      for (let i = 0; i < 25; i++) ids.push(await sample(sampler, i, [s, i + 1]));
      const answers = await Promise.all(ids.map(fetched));
      // the fake engine's tokens are a function of the prompt, so an answer of another request would show
      const again = await Promise.all(ids.map(fetched));
      answers.forEach((answer, i) => {
        if (answer.sequences.length !== 1) lost++;
        if (answer.sequences[0]!.tokens.join() !== again[i]!.sequences[0]!.tokens.join()) disordered++;
      });
      const numbers = ids.map((id) => Number.parseInt(id.split("-")[0]!, 36));
      if (numbers.some((n, i) => i > 0 && n <= numbers[i - 1]!)) disordered++;
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  training = false;
  await Promise.all(trainers);
  accepting.sort((a, b) => a - b);
  const [median, p99] = [quantile(accepting, 0.5), quantile(accepting, 0.99)];
  console.log(
    JSON.stringify({
      samples: accepting.length,
      lost,
      disordered,
      steps,
      seconds,
      acceptMedianMs: median,
      acceptP99Ms: p99,
    }),
  );
}
agent.destroy();
