import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { hashApiKey } from "../../http/access/auth.ts";
import { TestServer } from "../../testing/test-server.ts";

test("above the limit of the data folder new work is rejected with its largest runs, and accepted again after deletions", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-disk-"));
  const apiKeys = ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) }));
  const options = { dataDir, apiKeys, engine: { maxRank: 5000 }, limits: { rank: 5000 }, maxDiskBytes: 1_500_000 };
  const server = await TestServer.open(options);
  onTestFinished(async () => {
    await server.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  server.key = "tml-alice";
  const model = await server.model(undefined, { rank: 5000 });
  const save = (seq: number) =>
    server.post("save_weights_for_sampler", { model_id: model, seq_id: seq, path: `s${seq}` });
  let seq = 1;
  let refused = await save(seq);
  while (refused.status === 200 && seq < 20) {
    await server.result(refused);
    await server.clock.advance(2000);
    refused = await save(++seq);
  }
  expect(refused.status).toBe(507);
  expect(refused.headers.get("retry-after")).toBe("60");
  expect(refused.json.detail).toContain(model);
  expect(refused.json.detail).toContain("--max-disk");

  // Another tenant is also rejected, without the run names of the first.
  server.key = "tml-bob";
  const body = {
    session_id: await server.session(),
    model_seq_id: 0,
    base_model: "test/model",
    lora_config: { rank: 2 },
  };
  const other = await server.post("create_model", body);
  expect(other.status).toBe(507);
  expect(JSON.stringify(other.json)).not.toContain(model);

  server.key = "tml-alice";
  for (let old = 1; old < seq; old++) {
    await server.send("DELETE", `training_runs/${model}/checkpoints/sampler_weights/s${old}`);
  }
  await server.clock.advance(2000);
  expect(await server.result(save(seq))).toHaveProperty("path"); // the seq_id was not consumed
});
