/** Chats over sockets: clients that leave at any moment, and what is left of them. */
import { readdirSync } from "node:fs";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { expect, onTestFinished, test } from "vitest";
import { tinyTokenizer } from "../../../../models/src/testing/tiny-tokenizer.ts";
import { serve } from "../../serve.ts";
import { fakeEngine } from "../../testing/fake-engine.ts";

const tokenizer = tokenizerFromFiles(tinyTokenizer, "tiny");

test("50 clients that leave at any moment leave nothing behind: no sequence, no place, no descriptor", async () => {
  let running = 0;
  const engine = fakeEngine({
    contextLength: 4096,
    reply: () => [...tokenizer.encode("hello world ".repeat(60), { addSpecialTokens: false }), 267],
    beforeToken: () => new Promise((resolve) => setImmediate(resolve)),
  });
  const counted = {
    ...engine,
    sample: async (...args: Parameters<typeof engine.sample>) => {
      running++;
      try {
        return await engine.sample(...args);
      } finally {
        running--;
      }
    },
  };
  const model = { name: "m", open: async () => counted, tokenizerFiles: async () => tinyTokenizer };
  const server = await serve({ models: [model], port: 0, log: "off", limits: { chats: 60, chatsPerTenant: 60 } });
  onTestFinished(() => server.close());
  const ask = (path: string, signal: AbortSignal | null = null) =>
    fetch(server.url + path, {
      method: "POST",
      headers: { authorization: "Bearer tml-x", "content-type": "application/json", connection: "close" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "x" }], max_tokens: 500, stream: true }),
      signal,
    });
  const descriptors = () => readdirSync("/proc/self/fd").length;
  await (await ask("/v1/chat/completions")).text(); // what is opened once is open
  const before = process.platform === "linux" ? descriptors() : 0;
  const leave = async (chunks: number): Promise<void> => {
    const gone = new AbortController();
    const path = chunks % 2 === 0 ? "/v1/chat/completions" : "/anthropic/api/v1/messages";
    const response = await ask(path, gone.signal);
    const reader = response.body!.getReader();
    for (let i = 0; i < chunks; i++) await reader.read();
    gone.abort();
    await reader.closed.catch(() => {});
  };
  await Promise.all(Array.from({ length: 50 }, (_, i) => leave(i % 10)));
  await expect.poll(() => running, { timeout: 20_000 }).toBe(0);
  // every place is free again: sixty at once are taken
  const all = await Promise.all(Array.from({ length: 60 }, () => ask("/v1/chat/completions")));
  expect(all.map(({ status }) => status)).toEqual(new Array(60).fill(200));
  await Promise.all(all.map((response) => response.text()));
  if (process.platform === "linux") {
    await expect.poll(descriptors, { timeout: 20_000 }).toBeLessThanOrEqual(before + 2);
  }
}, 60_000);
