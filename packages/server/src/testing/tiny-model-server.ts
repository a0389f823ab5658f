/** A test server over the real engine with a small random model, for tests of what the engine decodes. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine } from "@tinklet/engine";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { writeTinyModel } from "../../../engine/src/testing/tiny-model.ts";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import { baseModel, TestServer } from "./test-server.ts";

export interface TinyModelServer {
  readonly server: TestServer;
  close(): Promise<void>;
}

/** @param contextLength - positions of the model */
export async function openTinyModelServer(contextLength: number): Promise<TinyModelServer> {
  const folder = await mkdtemp(join(tmpdir(), "tinklet-tiny-model-"));
  const { vocabSize } = tokenizerFromFiles(tinyTokenizer, "tiny");
  await writeTinyModel(folder, { vocab_size: vocabSize, max_position_embeddings: contextLength, eos_token_id: 267 });
  for (const [name, text] of Object.entries(tinyTokenizer)) {
    if (name !== "config.json") await writeFile(join(folder, name), text as string);
  }
  const open = () => openEngine(folder, { inThread: true, runtime: "interpreter" });
  const server = await TestServer.open({
    models: [{ name: baseModel, open, tokenizerFiles: async () => tinyTokenizer }],
  });
  const close = async () => {
    await server.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { server, close };
}
