import type { RunFolderInfo, Studio } from "@tinklet/wire";
import { expect, onTestFinished, test } from "vitest";
import { TestServer, type TestServerOptions } from "../../testing/test-server.ts";
import { hashApiKey } from "../access/auth.ts";

const info = (model: string): RunFolderInfo => ({
  ...{ id: model.replaceAll("/", "-"), name: "a", runIds: [], updatedAt: 0, rows: 0, last: {}, metric: undefined },
  ...{ sparkline: [], config: { model_name: model }, model, rollouts: [], data: [] },
});
const studio: Studio = {
  file: () => undefined,
  folders: {
    list: async () => [info("tinklet/base"), info("org/not-here")],
    read: async () => undefined,
    rollouts: async () => undefined,
  },
};
const open = async (options: TestServerOptions = {}) => {
  const server = await TestServer.open({ models: [], studio, ...options });
  onTestFinished(() => server.close());
  return (model: string) => server.get(`tinklet/tokenizer?model=${encodeURIComponent(model)}`);
};

test("a tokenizer on this machine can be downloaded for a model that a run folder names and that is not served", async () => {
  const ask = await open();
  const { status, json } = await ask("tinklet/base");
  expect(status).toBe(200);
  expect(JSON.parse(json.files["tokenizer.json"]).model).toBeDefined();
  // named by a run folder but not on this machine; on this machine but not named
  for (const model of ["org/not-here", "packages/base-model"]) expect((await ask(model)).status).toBe(404);
});

test("with configured keys, and without folders, only served models have tokenizers", async () => {
  const strict = await open({ apiKeys: [{ name: "local", sha256: hashApiKey("tml-test") }] });
  expect((await strict("tinklet/base")).status).not.toBe(200);
  expect((await (await open({ studio: undefined }))("tinklet/base")).status).toBe(404);
});
