/** Downloads over a socket, complete and aborted: their file descriptors are closed. */
import { mkdtemp, readdir, readlink, rm } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { serve } from "../../serve.ts";
import { fakeEngine } from "../../testing/fake-engine.ts";
import { baseModel } from "../../testing/test-server.ts";

/** A server on a socket with one saved checkpoint, whose size grows with `rank`. */
async function withCheckpoint(rank: number) {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-download-"));
  const server = await serve({
    models: [{ name: baseModel, open: async () => fakeEngine({ maxRank: rank }) }],
    limits: { rank },
    dataDir,
    port: 0,
    log: "off",
  });
  onTestFinished(async () => {
    await server.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  const call = async (path: string, body?: object) => {
    const answer = await server.fetch(
      new Request(`${server.url}/api/v1/${path}`, {
        method: body === undefined ? "GET" : "POST",
        headers: { "x-api-key": "tml-test", "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    return (await answer.json()) as Record<string, string>;
  };
  const done = async (path: string, body: object) =>
    call("retrieve_future", { request_id: (await call(path, body))["request_id"] });
  const session = (await call("create_session", { tags: [], sdk_version: "x" }))["session_id"];
  const create = { session_id: session, model_seq_id: 0, base_model: baseModel, lora_config: { rank } };
  const model = (await done("create_model", create))["model_id"]!;
  await done("save_weights_external", { model_id: model, seq_id: 1, path: "big" });
  const run = `training_runs/${model}/checkpoints/external_weights/big`;
  const urls = (await call(`${run}/external_weights_urls`))["urls"] as unknown as Record<string, string>;
  return {
    dataDir,
    archive: (await call(`${run}/archive`))["url"]!,
    file: urls["adapter_model.safetensors"]!,
  };
}

/** File descriptors of this process for adapters in a folder. */
async function openIn(dataDir: string): Promise<number> {
  const links = await Promise.all(
    (await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")),
  );
  return links.filter((link) => link.startsWith(join(dataDir, "adapters"))).length;
}

/** Starts a download and closes the connection at the first bytes. */
const giveUp = (url: string) =>
  new Promise<void>((resolve, reject) => {
    const request = get(url, { agent: false }, (response: IncomingMessage) => {
      response.once("data", () => {
        response.destroy();
        request.destroy();
      });
      response.once("close", () => resolve());
      response.once("error", () => {});
    });
    request.once("error", reject);
  });

describe.skipIf(process.platform !== "linux")("a download that is given up", () => {
  test.each(["archive", "file"] as const)("closes its file descriptors: %s", async (what) => {
    const checkpoint = await withCheckpoint(100_000);
    for (let i = 0; i < 8; i++) await giveUp(checkpoint[what]);
    await expect.poll(() => openIn(checkpoint.dataDir), { timeout: 5000 }).toBe(0);
  });

  test("and one that is read to its end leaves no file open", async () => {
    const checkpoint = await withCheckpoint(4);
    const answer = await fetch(checkpoint.archive);
    await answer.arrayBuffer();
    expect(answer.status).toBe(200);
    await expect.poll(() => openIn(checkpoint.dataDir), { timeout: 5000 }).toBe(0);
  });
});
