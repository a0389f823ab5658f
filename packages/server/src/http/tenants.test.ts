import { beforeAll, describe, expect, test } from "vitest";
import { TestServer } from "../testing/test-server.ts";
import { hashApiKey, parseApiKeys } from "./access/auth.ts";

/** Ids of the first tenant's objects; no response to the second tenant may contain one. */
interface Owned {
  session: string;
  model: string;
  sampler: string;
  request: string;
  path: string;
  run: string;
}
let server: TestServer;
let owned: Owned;

beforeAll(async () => {
  server = await TestServer.open({
    apiKeys: [
      { name: "alice", sha256: hashApiKey("tml-alice") },
      { name: "bob", sha256: hashApiKey("tml-bob") },
    ],
  });
  server.key = "tml-alice";
  const session = await server.session();
  const model = await server.model(session);
  const saved = await server.result(server.post("save_weights", { model_id: model, seq_id: 1, path: "secret" }));
  const pass = await server.pass(model, 2);
  await server.passResult(pass);
  await server.result(server.post("save_weights_external", { model_id: model, seq_id: 3, path: "outside" }));
  const sampler = await server.post("create_sampling_session", {
    session_id: session,
    sampling_session_seq_id: 0,
    model_path: saved.path,
  });
  owned = {
    session,
    model,
    sampler: sampler.json.sampling_session_id,
    request: pass.json.request_id,
    path: saved.path,
    run: model,
  };
  return () => server.close();
});

describe("a second tenant", () => {
  test("the first tenant's objects are unchanged and visible to that tenant only", async () => {
    server.key = "tml-alice";
    const { checkpoints } = (await server.get("checkpoints")).json;
    expect(checkpoints).toHaveLength(2);
    for (const each of checkpoints) expect(each).toMatchObject({ public: false });
    for (const each of checkpoints) expect(each).not.toHaveProperty("expires_at");
    expect((await server.retrieve(owned.request)).status).toBe(200);
    // the session is open, and the model's next number is free: the other tenant's attempts did not use it
    expect((await server.post("session_heartbeat", { session_id: owned.session })).status).toBe(200);
    expect(await server.result(server.optim(owned.model, 4))).toHaveProperty("metrics");
  });

  test("a token identifies the tenant of its key, and an unknown key is refused", async () => {
    server.key = "tml-alice";
    const { jwt } = (await server.post("auth/token")).json;
    server.key = jwt;
    expect((await server.get("sessions")).json.sessions).toContain(owned.session);
    for (const key of ["tml-carol", "tml-", "", "alice", `${jwt.slice(0, -2)}xx`]) {
      server.key = key;
      expect((await server.get("sessions")).status).toBe(401);
    }
    server.key = jwt;
    await server.clock.advance(3_600_000);
    expect((await server.get("sessions")).status).toBe(401);
  });

  test("a published checkpoint can be read and loaded by all tenants, and changed by its owner only", async () => {
    server.key = "tml-alice";
    await server.send("POST", `training_runs/${owned.run}/checkpoints/weights/secret/publish`);
    server.key = "tml-bob";
    expect((await server.post("weights_info", { tinker_path: owned.path })).json).toMatchObject({ lora_rank: 4 });
    const session = await server.session();
    const loaded = server.post("load_weights", {
      session_id: session,
      model_seq_id: 0,
      path: owned.path,
      optimizer: true,
    });
    expect(await server.result(loaded)).toMatchObject({ model_id: `${session}:train:0` });
    const at = `training_runs/${owned.run}/checkpoints/weights/secret`;
    expect((await server.send("DELETE", at)).status).toBe(404);
    expect((await server.send("DELETE", `${at}/publish`)).status).toBe(404);
    expect((await server.send("PUT", `${at}/ttl`, { ttl_seconds: 5 })).status).toBe(404);
    server.key = "tml-alice";
    await server.send("DELETE", `${at}/publish`);
  });

  test("an access token gives access to another tenant's weights for one load, and is not stored", async () => {
    server.key = "tml-bob";
    const session = await server.session();
    const body = { session_id: session, model_seq_id: 1, path: owned.path, optimizer: false };
    expect((await server.post("load_weights", body)).status).toBe(400);
    const loaded = server.post("load_weights", { ...body, weights_access_token: "tml-alice" });
    expect(await server.result(loaded)).toMatchObject({ model_id: `${session}:train:1` });
  });
});

test("the engine gets the tenant of each prompt, so that no tenant finds another's in the cache", async () => {
  const scopes: (string | undefined)[] = [];
  const own = await TestServer.open({
    apiKeys: ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
    engine: { onSample: ({ scope }) => void scopes.push(scope) },
  });
  for (const name of ["alice", "bob", "alice"]) {
    own.key = `tml-${name}`;
    const body = {
      base_model: "test/model",
      prompt: { chunks: [{ tokens: [1, 2] }] },
      sampling_params: { max_tokens: 1 },
    };
    await own.sampleResult(own.post("asample", body));
  }
  expect(scopes[0]).not.toBe(scopes[1]);
  expect(scopes).toEqual([scopes[0], scopes[1], scopes[0]]);
  expect(scopes).not.toContain(undefined);
  await own.close();
});

test("a key file without a key is refused, because the server would accept any key", () => {
  for (const text of ["", "\n\n", "# no keys yet\n"]) expect(() => parseApiKeys(text)).toThrow(/has no key/);
  const sha256 = hashApiKey("tml-alice");
  expect(parseApiKeys(`alice sha256:${sha256}`)).toEqual([{ name: "alice", sha256 }]);
});
