// Formats that are made to hold a server up, over sockets and on the bundled model: other requests are answered meanwhile, memory comes back,
// and cancelling and stopping work.
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Ajv2020 } from "ajv/dist/2020.js";
import { ModelInput, ServiceClient } from "tinklet";
import type { JsonValue } from "tinklet/wire";
import { beforeAll, expect, onTestFinished, test } from "vitest";

const { bundle } = (await import("../../fixtures/programs/bundle.mjs" as string)) as {
  bundle: (entry: string) => Promise<string>;
};
const model = "tinklet/base";
const [attacker, other] = ["tml-attacker", "tml-other"] as const;
let main: string;
beforeAll(async () => {
  main = await bundle("test/fixtures/programs/serve-main.ts");
});

const list = <T>(length: number, make: (index: number) => T): T[] => Array.from({ length }, (_, i) => make(i));

/** A server as a process of its own, with two tenants. */
async function start(folder: string) {
  const apiKeys = join(folder, "keys");
  const lines = [attacker, other].map((key) => `${key} sha256:${createHash("sha256").update(key).digest("hex")}`);
  writeFileSync(apiKeys, lines.join("\n"));
  const child: ChildProcess = spawn(
    process.execPath,
    [main, JSON.stringify({ apiKeys, dataDir: join(folder, "data") })],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  const [url] = (await once(createInterface({ input: child.stdout! }), "line")) as [string];
  const post = async (key: string, path: string, body: object, signal?: AbortSignal) => {
    const answer = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, ...body }),
      ...(signal === undefined ? {} : { signal }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: OpenAI's shapes
    return { status: answer.status, json: (await answer.json()) as any };
  };
  /** A chat whose reply has to have a format. */
  const attack = (schema: object, body: object = {}, signal?: AbortSignal) =>
    post(
      attacker,
      "/v1/chat/completions",
      {
        messages: [{ role: "user", content: "Hi" }],
        max_tokens: 300,
        seed: 1,
        response_format: { type: "json_schema", json_schema: { name: "x", schema } },
        ...body,
      },
      signal,
    );
  /** What others ask, one after the other, until something has ended. */
  const othersUntil = async <T>(end: Promise<T>): Promise<{ answered: number; result: T }> => {
    let isOver = false;
    const over = end.finally(() => {
      isOver = true;
    });
    let answered = 0;
    do {
      const [plain, health] = await Promise.all([
        post(other, "/v1/completions", { prompt: "Hi", max_tokens: 1 }),
        fetch(`${url}/api/v1/healthz`),
      ]);
      expect([plain.status, health.status]).toEqual([200, 200]);
      answered++;
    } while (!isOver);
    return { answered, result: await over };
  };
  /** A gauge, or a count, of the server's. */
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${other}` } })).text();
    return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+]+)$`, "m").exec(text)![1]);
  };
  return { url, child, exited, attack, othersUntil, metric };
}

function folderOf(): string {
  const folder = mkdtempSync(join(tmpdir(), "tinklet-grammar-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Objects of 500 names of 130 characters, each of which may be left out. */
const optional = {
  type: "array",
  minItems: 20,
  items: {
    type: "object",
    properties: Object.fromEntries(
      list(500, (i) => [`${"abcdefghijklmnopqrstuvwxyz"[i % 26]}${i}${" ".repeat(118)}`, { const: 1 }]),
    ),
    additionalProperties: false,
  },
};

test("an integer with a large minimum is written, and others are answered meanwhile", async () => {
  const { attack, othersUntil } = await start(folderOf());
  const ajv = new Ajv2020({ strict: false, logger: false });
  for (const minimum of [100_000, 1_000_000, 10_000_000]) {
    for (const schema of [
      { type: "integer", minimum },
      { type: "object", properties: { n: { type: "integer", minimum } }, required: ["n"] },
    ]) {
      const { result } = await othersUntil(attack(schema));
      expect(result.status).toBe(200);
      expect(ajv.validate(schema, JSON.parse(result.json.choices[0].message.content))).toBe(true);
    }
  }
});

test("500 optional names take little memory, and others are answered meanwhile", async () => {
  const { attack, othersUntil, metric } = await start(folderOf());
  await othersUntil(attack({ type: "null" }));
  const before = await metric("tinklet_resident_memory_bytes");
  const { answered, result } = await othersUntil(attack(optional, { n: 16, temperature: 2, max_tokens: 600 }));
  expect(result.status).toBe(200);
  expect(answered).toBeGreaterThan(1);
  // The caches of sixteen long replies are in it as well.
  expect((await metric("tinklet_resident_memory_bytes")) - before).toBeLessThan(512 * 1024 * 1024);
  expect(await metric("tinklet_engine_grammar_bytes")).toBeLessThan(64 * 1024 * 1024);
});

test("a oneOf of 256 lists is written or refused by name, and others are answered meanwhile", async () => {
  const { attack, othersUntil } = await start(folderOf());
  const oneOf = (options: number, values: number) => ({
    oneOf: list(options, (i) => ({ enum: list(values, (k) => values * i + k) })),
  });
  expect((await othersUntil(attack(oneOf(256, 30)))).result.status).toBe(200);
  const { result } = await othersUntil(attack(oneOf(256, 2000)));
  expect(result).toMatchObject({ status: 400, json: { error: { code: "grammar_too_large" } } });
  expect(result.json.error.message).toContain("than the limit of 262144");
});

test("samples that are stored end by themselves or when they are cancelled, and stopping the server ends it", async () => {
  const folder = folderOf();
  const first = await start(folder);
  await using service = await ServiceClient.connect({ baseUrl: first.url, apiKey: attacker });
  const sampler = await service.createSamplingClient({ baseModel: model });
  const sample = async (schema: JsonValue, signal?: AbortSignal) =>
    await sampler.sample(ModelInput.fromInts([5, 6, 7]), {
      samplingParams: { maxTokens: 300, seed: 1 },
      constraint: { type: "json_schema", schema },
      ...(signal === undefined ? {} : { signal }),
    });
  const { result } = await first.othersUntil(sample({ type: "integer", minimum: 10_000_000 }));
  expect(result.sequences[0]!.stopReason).toBe("stop");

  const stop = new AbortController();
  const cancelled = list(20, (i) =>
    sample({ ...optional, minItems: 20 + i }, stop.signal).catch((error: unknown) => error),
  );
  await first.othersUntil(Promise.resolve());
  stop.abort(new Error("enough"));
  for (const error of await Promise.all(cancelled)) expect(error).toBeInstanceOf(Error);
  while ((await first.metric("tinklet_pending_requests")) > 0) await first.othersUntil(Promise.resolve());

  const left = list(8, (i) => first.attack({ ...optional, minItems: 20 + i }).catch(() => {}));
  await first.othersUntil(Promise.resolve());
  first.child.kill("SIGTERM");
  expect(await first.exited).toEqual([0, null]);
  await Promise.all(left);
});
