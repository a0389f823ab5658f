/**
 * `rates MODEL_FOLDER`: tokens per second of streamed chats, of samples through the SDK, of samples held to a schema and of free ones, in turns.
 * Prints one line of JSON.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine } from "../../packages/engine/src/index.ts";
import { loadTokenizerFiles } from "../../packages/models/src/index.ts";
import { ModelInput, ServiceClient } from "../../packages/sdk/src/index.ts";
import { serve } from "../../packages/server/src/serve.ts";

const model = process.argv[2]!;
const [rounds, clients, length] = [5, 32, 64];
const engine = await openEngine(model);
const work = mkdtempSync(join(tmpdir(), "tinklet-bench-"));
const server = await serve({
  models: [{ name: "bench/model", open: async () => engine, tokenizerFiles: () => loadTokenizerFiles(model) }],
  dataDir: work,
  port: 0,
  log: "off",
});
const prompt = await engine.tokenizer.applyChatTemplate([{ role: "user", content: "Tell me about the sea." }], {
  addGenerationPrompt: true,
});
/** Tokens per second of work that tells how many tokens it drew. */
const rateOf = async (run: () => Promise<number>): Promise<number> => {
  const started = performance.now();
  const tokens = await run();
  return tokens / ((performance.now() - started) / 1000);
};
const all = async (count: number, one: (seed: number) => Promise<number>): Promise<number> => {
  const each = await Promise.all(Array.from({ length: count }, (_, i) => one(i)));
  return each.reduce((sum, tokens) => sum + tokens, 0);
};

const chat = async (seed: number): Promise<number> => {
  const response = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: "Bearer tml-bench", "content-type": "application/json" },
    body: JSON.stringify({
      model: "bench/model",
      prompt: [...prompt],
      max_tokens: length,
      seed,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  return Number(/"completion_tokens":(\d+)/.exec(await response.text())![1]);
};
const service = await ServiceClient.connect({ baseUrl: server.url, apiKey: "tml-bench" });
const sampler = await service.createSamplingClient({ baseModel: "bench/model" });
const sample = async (seed: number): Promise<number> => {
  const samplingParams = { maxTokens: length, seed };
  const result = await sampler.sample(ModelInput.fromInts([...prompt]), { numSamples: 1, samplingParams });
  return result.sequences.reduce((sum, { tokens }) => sum + tokens.length, 0);
};

const schema = {
  type: "object",
  properties: {
    title: { type: "string", maxLength: 60 },
    kind: { enum: ["story", "letter", "song"] },
    lines: { type: "array", items: { type: "string", maxLength: 80 }, minItems: 2, maxItems: 6 },
    year: { type: "integer", minimum: 1000, maximum: 2100 },
  },
  required: ["title", "kind", "lines", "year"],
  additionalProperties: false,
};
const constraint = { type: "json_schema", schema } as const;
const lengths = new Map<number, number>();
const held = async (seed: number): Promise<number> => {
  const { sequences } = await engine.sample({ prompt, params: { maxTokens: 128, seed, constraint } });
  lengths.set(seed, sequences[0]!.tokens.length);
  return sequences[0]!.tokens.length;
};
/** As many tokens, whatever they are. */
const free = async (seed: number): Promise<number> => {
  const { sequences } = await engine.sample({ prompt, params: { maxTokens: lengths.get(seed)!, seed, stop: [] } });
  return sequences[0]!.tokens.length;
};

const rates = { chats: [] as number[], samples: [] as number[], held: [] as number[], free: [] as number[] };
for (let round = -1; round < rounds; round++) {
  const measured = {
    chats: await rateOf(() => all(clients, chat)),
    samples: await rateOf(() => all(clients, sample)),
    held: await rateOf(() => all(16, held)),
    free: await rateOf(() => all(16, free)),
  };
  if (round < 0) continue; // everything is compiled and opened once
  for (const name of Object.keys(rates) as (keyof typeof rates)[]) rates[name].push(measured[name]);
}
await service.close();
await server.close();
await engine.close();
rmSync(work, { recursive: true, force: true });
process.stdout.write(`${JSON.stringify(rates)}\n`);
