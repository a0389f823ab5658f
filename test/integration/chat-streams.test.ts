/** Chats on the bundled model, over sockets: a stream is its whole answer byte for byte, and clients that leave leave nothing behind. */
import { readdirSync } from "node:fs";
import { type Engine, openEngine } from "@tinklet/engine";
import { afterAll, beforeAll, expect, test } from "vitest";
import { modelPath } from "../../packages/base-model/index.js";
import { createRandom } from "../../packages/engine/src/random.ts";
import { resolveModels } from "../../packages/server/src/models.ts";
import { type RunningServer, serve } from "../../packages/server/src/serve.ts";

const model = "tinklet/base";
/** Characters of several bytes, of several code points, and such as combine with what is before them. */
const pieces = [
  "👩‍👩‍👧",
  "🏳️‍🌈",
  "日本語",
  "漢字",
  "e\u0301",
  "n\u0303",
  "ß",
  "ﬃ",
  "\u200d",
  "한국",
  "🇨🇭",
  "ไทย",
  "a\u0308\u0323",
];

let engine: Engine;
let server: RunningServer;
/** Tokens of the pieces: drawn at random, they are halves of characters in any order. */
let biased: Record<string, number>;
beforeAll(async () => {
  engine = await openEngine(modelPath, { inThread: true, threads: 1 });
  const [bundled] = await resolveModels([]);
  server = await serve({ models: [{ ...bundled!, open: async () => engine }], port: 0, log: "off" });
  const ids = (
    await Promise.all(pieces.map((text) => engine.tokenizer.encode(text, { addSpecialTokens: false })))
  ).flat();
  biased = Object.fromEntries([...new Set(ids)].map((id) => [id, 30]));
}, 120_000);
afterAll(() => server.close());

const post = (body: object, signal?: AbortSignal) =>
  fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer tml-x", "content-type": "application/json", connection: "close" },
    body: JSON.stringify({ model, ...body }),
    ...(signal === undefined ? {} : { signal }),
  });

interface Answer {
  readonly content: string;
  readonly finish: string;
  readonly completionTokens: number;
}

async function whole(body: object): Promise<Answer & { readonly bytes: Buffer }> {
  const answer = await post({ ...body, logprobs: true });
  expect(answer.status).toBe(200);
  // biome-ignore lint/suspicious/noExplicitAny: OpenAI's shape
  const { choices, usage } = (await answer.json()) as any;
  const [{ message, logprobs, finish_reason: finish }] = choices;
  const bytes = Buffer.from(logprobs.content.flatMap(({ bytes: each }: { bytes: number[] }) => each));
  return { content: message.content, finish, completionTokens: usage.completion_tokens, bytes };
}

async function streamed(body: object): Promise<Answer> {
  const answer = await post({ ...body, stream: true, stream_options: { include_usage: true } });
  const blocks = (await answer.text()).split("\n\n").filter((block) => block.startsWith("data: {"));
  const chunks = blocks.map((block) => JSON.parse(block.slice("data: ".length)));
  let content = "";
  let finish = "";
  for (const { choices } of chunks) {
    const [choice] = choices;
    const piece = choice?.delta.content ?? "";
    expect(piece.isWellFormed()).toBe(true);
    content += piece;
    finish = choice?.finish_reason ?? finish;
  }
  return { content, finish, completionTokens: chunks.at(-1).usage.completion_tokens };
}

test("500 prompts with emoji, CJK, combining marks and stop texts across token borders: a stream is the whole answer, byte for byte", async () => {
  const random = createRandom(18, "streams");
  const below = (n: number) => Math.floor(random() * n);
  const seen = { wide: 0, replaced: 0, stopped: 0, lengths: 0 };
  const compare = async (i: number, draw: () => number) => {
    const content = Array.from({ length: 1 + (i % 4) }, (_, at) => pieces[(i * 7 + at) % pieces.length]!).join(" ");
    const shape = [
      { temperature: 1 },
      { temperature: 40 },
      { logit_bias: biased },
      { logit_bias: biased, temperature: 3 },
    ];
    const asked = { messages: [{ role: "user", content }], seed: i, max_tokens: 10, ...shape[i % 4] };
    const free = await whole(asked);
    expect(free.bytes.toString("utf8").startsWith(free.content), free.content).toBe(true); // what was drawn, to the byte
    // A text from the middle of the answer, two characters at least: where its tokens end is all the same to it.
    const letters = [...free.content];
    const at = Math.floor(draw() * letters.length);
    const stop = i % 2 === 0 || letters.length < 4 ? undefined : letters.slice(at, at + 2 + (i % 3)).join("");
    const body = { ...asked, ...(stop === undefined || stop === "" ? {} : { stop }) };
    const [one, other] = await Promise.all([whole(body), streamed(body)]);
    expect(Buffer.from(other.content)).toEqual(Buffer.from(one.content));
    expect([other.finish, other.completionTokens]).toEqual([one.finish, one.completionTokens]);
    const wanted = "stop" in body ? free.content.split(body.stop as string)[0]! : free.content;
    expect(one.content).toBe(wanted);
    if (/[^\0-\x7f]/.test(one.content)) seen.wide++;
    if (one.content.includes("\ufffd")) seen.replaced++;
    if ("stop" in body) seen.stopped++;
    if (one.finish === "length") seen.lengths++;
  };
  const draws = Array.from({ length: 500 }, () => below(1000) / 1000);
  for (let first = 0; first < 500; first += 25) {
    await Promise.all(Array.from({ length: 25 }, (_, k) => compare(first + k, () => draws[first + k]!)));
  }
  // The check is about something: many answers have wide characters, many of these broken ones, and many were stopped.
  for (const [what, count] of Object.entries(seen))
    expect(count, `${what}: ${JSON.stringify(seen)}`).toBeGreaterThan(75);
}, 600_000);

test("50 clients that leave at random moments leave nothing behind: no sequence, no row of the cache, no descriptor", async () => {
  const random = createRandom(50, "leave");
  const descriptors = () => (process.platform === "linux" ? readdirSync("/proc/self/fd").length : 0);
  const asked = { messages: [{ role: "user", content: "Tell me a story." }], max_tokens: 60, seed: 1, temperature: 2 };
  const before = await whole(asked);
  const open = descriptors();
  const leave = async (pieces: number): Promise<void> => {
    const gone = new AbortController();
    const n = 1 + (pieces % 3);
    if (pieces === 0) queueMicrotask(() => gone.abort()); // before there is an answer at all
    try {
      const answer = await post({ ...asked, n, stream: true }, gone.signal);
      const reader = answer.body!.getReader();
      for (let i = 0; i < pieces; i++) if ((await reader.read()).done) break;
      gone.abort();
      await reader.closed;
    } catch (error) {
      expect((error as Error).name).toBe("AbortError");
    }
  };
  await Promise.all(Array.from({ length: 50 }, () => leave(Math.floor(random() * 20))));
  // A row of the cache belongs to each sequence that is drawn; what is kept without one is room for the next batch.
  const left = async () => {
    const { activeSequences, waitingSequences } = await engine.stats();
    return activeSequences + waitingSequences;
  };
  await expect.poll(left, { timeout: 60_000 }).toBe(0);
  await expect.poll(descriptors, { timeout: 60_000 }).toBeLessThanOrEqual(open + 2);
  expect(await whole(asked)).toEqual(before);
}, 300_000);
