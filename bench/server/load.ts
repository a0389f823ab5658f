/**
 * Load on a server over the fake engine, from a process of its own: `load URL MODE`. `rate` sends small samples as fast as they are
 * taken; `mixed` is 5,000 samples of 200 sessions while two models train, and checks that none is lost, mixed up or out of order.
 * Prints one line of JSON.
 */

import { decodeSampleResponse } from "@tinklet/wire";
import { fakeEngine } from "../../packages/server/src/testing/fake-engine.ts";
import { RawClient } from "./raw-http.ts";

const [url, mode, countText] = process.argv.slice(2) as [string, "rate" | "mixed", string?];
const baseModel = "test/model";
const clients: RawClient[] = [];
const newClient = (connections: number) => {
  const client = new RawClient(url, connections);
  clients.push(client);
  return client;
};

const json = async (client: RawClient, path: string, body: unknown) => {
  const answer = await client.post(path, JSON.stringify(body));
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.body.toString().slice(0, 300)}`);
  return JSON.parse(answer.body.toString()) as Record<string, string>;
};
const newSession = async (client: RawClient) =>
  (await json(client, "create_session", { tags: [], user_metadata: {}, sdk_version: "load" }))["session_id"]!;
const newSampler = async (client: RawClient, session: string, seq: number) => {
  const body = { session_id: session, sampling_session_seq_id: seq, base_model: baseModel };
  return (await json(client, "create_sampling_session", body))["sampling_session_id"]!;
};

const accepting: number[] = [];
/** Submits a sample and notes how long it took to be accepted. */
const submit = async (client: RawClient, sampler: string, seq: number, tokens: readonly number[]) => {
  const body = `{"sampling_session_id":"${sampler}","seq_id":${seq},"prompt":{"chunks":[{"type":"encoded_text","tokens":[${tokens.join()}]}]},"sampling_params":{"max_tokens":8,"seed":1},"num_samples":1,"type":"sample"}`;
  const started = performance.now();
  const answer = await client.post("asample", body);
  accepting.push(performance.now() - started);
  if (answer.status !== 200) throw new Error(`asample: ${answer.status} ${answer.body.toString().slice(0, 300)}`);
  return /"request_id":"([^"]+)"/.exec(answer.body.toString("latin1"))![1]!;
};
/** Polls until the result is there. */
const fetched = async (client: RawClient, id: string): Promise<Buffer> => {
  for (;;) {
    const answer = await client.post("retrieve_future", `{"request_id":"${id}"}`, "application/x-protobuf");
    if (answer.status !== 200) throw new Error(`retrieve: ${answer.status} ${answer.body.toString().slice(0, 200)}`);
    if (answer.body[0] !== 0x7b) return answer.body;
  }
};
const tokensOf = (bytes: Buffer): string =>
  decodeSampleResponse(bytes)
    .sequences.map(({ tokens }) => tokens.join())
    .join("|");

async function rate(count: number) {
  const client = newClient(48);
  const session = await newSession(client);
  const samplers = await Promise.all(Array.from({ length: 8 }, (_, i) => newSampler(client, session, i)));
  let next = 0;
  const started = performance.now();
  const cpu = process.cpuUsage();
  await Promise.all(
    Array.from({ length: 48 }, async () => {
      for (let i = next++; i < count; i = next++) {
        await fetched(client, await submit(client, samplers[i % 8]!, i, [1, 2, 3, i % 400]));
      }
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { samplesPerSecond: count / seconds, seconds, ownCpuMs: (user + system) / 1000 };
}

async function mixed(sessions: number, perSession: number) {
  const control = newClient(16);
  const session = await newSession(control);
  const models = await Promise.all(
    [0, 1].map(async (seq) => {
      const body = { session_id: session, model_seq_id: seq, base_model: baseModel, lora_config: { rank: 4 } };
      return (await json(control, "create_model", body))["model_id"]!;
    }),
  );
  let training = true;
  let steps = 0;
  const trainers = models.map(async (model) => {
    const client = newClient(1);
    for (let seq = 1; training; seq++) {
      const { request_id: id } = await json(client, "optim_step", { model_id: model, seq_id: seq, adam_params: {} });
      const { metrics } = await json(client, "retrieve_future", { request_id: id });
      if (metrics === undefined) throw new Error(`step ${seq} of ${model} gave no metrics`);
      steps++;
    }
  });
  // a socket for each session's submissions, opened by creating it: the times are the server's, not those of waiting for a socket
  const [submissions, polls] = [newClient(sessions), newClient(64)];
  const samplers = await Promise.all(
    Array.from({ length: sessions }, async () => newSampler(submissions, await newSession(submissions), 0)),
  );
  const prompt = (s: number, i: number) => [s, 200 + i, (s * perSession + i) % 400];
  const started = performance.now();
  let disordered = 0;
  const answers = await Promise.all(
    samplers.map(async (sampler, s) => {
      const ids: string[] = [];
      for (let i = 0; i < perSession; i++) ids.push(await submit(submissions, sampler, i, prompt(s, i)));
      const numbers = ids.map((id) => Number.parseInt(id.split("-")[0]!, 36));
      disordered += numbers.filter((n, i) => i > 0 && n <= numbers[i - 1]!).length;
      return Promise.all(ids.map((id) => fetched(polls, id)));
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  training = false;
  await Promise.all(trainers);
  // the fake engine's tokens are a function of the prompt: the answer of another request, or half of one, would show
  const oracle = fakeEngine();
  let lost = 0;
  for (const [s, row] of answers.entries()) {
    for (const [i, bytes] of row.entries()) {
      const { sequences } = await oracle.sample({ prompt: prompt(s, i), params: { maxTokens: 8, seed: 1 } });
      if (tokensOf(bytes) !== sequences.map(({ tokens }) => tokens.join()).join("|")) lost++;
    }
  }
  accepting.sort((a, b) => a - b);
  const quantile = (q: number) => accepting[Math.min(accepting.length - 1, Math.floor(q * accepting.length))]!;
  return {
    samples: accepting.length,
    lost,
    disordered,
    steps,
    seconds,
    acceptMedianMs: quantile(0.5),
    acceptP99Ms: quantile(0.99),
  };
}

const result = mode === "rate" ? await rate(Number(countText ?? "8000")) : await mixed(200, 25);
for (const client of clients) client.close();
console.log(JSON.stringify(result));
