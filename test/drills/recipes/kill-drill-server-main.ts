/** The server of the recipes' kill drill, as a process of its own: the fake engine, or the real one on a model's folder, with its tokenizer. */
import { resolveModels } from "../../../packages/server/src/models.ts";
import { serve } from "../../../packages/server/src/serve.ts";
import { fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";

interface Options {
  /** The folder of the bundled model. */
  readonly model: string;
  readonly isReal: boolean;
  readonly dataDir: string;
}

const { model, isReal, dataDir } = JSON.parse(process.argv[2] ?? "{}") as Options;
const name = "tinklet/base";
const fake = { name, tokenizerId: model, open: async () => fakeEngine({ vocabSize: 4096, contextLength: 1024 }) };
const models = isReal ? await resolveModels([`${name}=${model}`]) : [fake];
const running = await serve({ models, dataDir, port: 0, log: "off" });
process.stdout.write(`${running.url}\n`);
process.on("SIGTERM", () => void running.close().then(() => process.exit(0)));
