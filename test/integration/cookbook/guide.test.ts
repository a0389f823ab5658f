/** The guide to the cookbook, block by block, as a user would run it: against a server whose engine computes nothing. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import {
  guessingGame,
  type OpenEnvServer,
  startOpenEnvServer,
} from "../../../packages/cookbook/src/testing/open-env-server.ts";
import { serve } from "../../../packages/server/src/index.ts";
import { fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";

vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 }); // a busy machine is no failure
const root = fileURLToPath(new URL("../../../", import.meta.url));
const written = join(root, ".cache/cookbook-guide");
const guide = readFileSync(join(root, "docs/cookbook.md"), "utf8");
const blocks = [...guide.matchAll(/^## (.+)\n(?:(?!^## )[\s\S])*?^```ts\n([\s\S]*?)\n```/gm)].map(
  ([, heading, code]) => [heading as string, code as string] as const,
);
const baseModel = "tinklet/base";
const work = mkdtempSync(join(tmpdir(), "tinklet-guide-"));
let server: Awaited<ReturnType<typeof serve>>;
let game: OpenEnvServer;

beforeAll(async () => {
  const tokenizerId = join(root, "packages/base-model");
  const open = async () => fakeEngine({ vocabSize: 4096, contextLength: 1024 });
  server = await serve({ models: [{ name: baseModel, open, tokenizerId }], port: 0, log: "off" });
  game = await startOpenEnvServer(guessingGame);
  vi.stubEnv("TINKER_BASE_URL", server.url);
  vi.stubEnv("TINKER_API_KEY", "tml-guide");
  mkdirSync(written, { recursive: true });
  const examples = Array.from({ length: 20 }, (_, i) => ({ prompt: `${i} + 1 =`, completion: ` ${i + 1}` }));
  writeFileSync(join(work, "data.jsonl"), examples.map((example) => `${JSON.stringify(example)}\n`).join(""));
});
afterAll(async () => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  await game?.close();
  await server?.close();
  rmSync(work, { recursive: true, force: true });
  rmSync(written, { recursive: true, force: true });
});

it("has a block for each thing that a user brings", () => {
  expect(blocks.map(([heading]) => heading)).toEqual(
    expect.arrayContaining([
      "My data",
      "My reward",
      "My teacher",
      "My environment",
      "My tests",
      "My MCP servers",
      "My OpenEnv server",
      "Evaluations",
      "Loggers",
    ]),
  );
  expect(blocks.length).toBe(guide.match(/^```ts$/gm)?.length);
});

/** Type-checked only (test/integration/docs): the engine that computes nothing has no likeliest tokens. */
const notRun = ["My teacher"];

it.each(blocks.filter(([heading]) => !notRun.includes(heading)))("%s runs", async (heading, code) => {
  const said: unknown[][] = [];
  vi.spyOn(console, "log").mockImplementation((...words) => void said.push(words));
  const file = join(written, `${heading.toLowerCase().replaceAll(" ", "-")}.ts`);
  const local = code.replaceAll("Qwen/Qwen3-8B", baseModel);
  const ended = local.replaceAll("http://127.0.0.1:8000", game.url);
  const placed = ended.replaceAll('"runs/', `"${work}/runs/`).replaceAll('"data.jsonl"', `"${work}/data.jsonl"`);
  writeFileSync(file, `${placed}\nawait service.close();\n`);
  await import(/* @vite-ignore */ file);
  expect(said.length).toBeGreaterThan(0);
});
