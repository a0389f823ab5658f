/**
 * A server over the real engine as a process of its own, for the interop suite and benchmarks. Options come as one JSON argument;
 * `tiny` names a folder in which a tiny model is made first. The address goes to standard output.
 */
import { readFile } from "node:fs/promises";
import { parseApiKeys } from "../../packages/server/src/http/access/auth.ts";
import { resolveModels } from "../../packages/server/src/models.ts";
import { serve } from "../../packages/server/src/serve.ts";
import { writeTinyFolder } from "./tiny-folder.ts";

interface Options {
  readonly tiny?: string;
  readonly models?: readonly string[];
  readonly dataDir?: string;
  readonly port?: number;
  readonly host?: string;
  readonly apiKeys?: string;
  readonly log?: "json" | "pretty" | "off";
  readonly viaLoad?: boolean;
  readonly compress?: boolean;
}

const options = JSON.parse(process.argv[2] ?? "{}") as Options;
if (options.tiny !== undefined) await writeTinyFolder(options.tiny);
const running = await serve({
  models: await resolveModels([...(options.tiny === undefined ? [] : [options.tiny]), ...(options.models ?? [])]),
  dataDir: options.dataDir,
  port: options.port ?? 0,
  host: options.host ?? "127.0.0.1",
  log: options.log ?? "off",
  createModelViaLoadWeights: options.viaLoad ?? false,
  compressRequests: options.compress ?? false,
  ...(options.apiKeys === undefined ? {} : { apiKeys: parseApiKeys(await readFile(options.apiKeys, "utf8")) }),
});
process.stdout.write(`${running.url}\n`);
const stop = () => void running.close().then(() => process.exit(0));
process.on("SIGTERM", stop);
process.on("SIGINT", stop);
