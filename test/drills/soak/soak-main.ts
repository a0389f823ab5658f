/**
 * The server of the soak drill: the real engine in a process of its own, which tells its parent over IPC how it is (descriptors, heap
 * after two forced collections, the longest turn of its event loop) and every rejection that nobody handled. Options come as one JSON
 * argument. Needs `--expose-gc`.
 */
import { readdirSync, readlinkSync } from "node:fs";
import { parseApiKeys } from "../../../packages/server/src/http/access/auth.ts";
import { resolveModels } from "../../../packages/server/src/models.ts";
import { serve } from "../../../packages/server/src/serve.ts";
import { watchTurns } from "../../fixtures/programs/loop-delay.ts";

interface Options {
  readonly dataDir: string;
  readonly port: number;
  /** A file of API keys. */
  readonly keys: string;
}

const options = JSON.parse(process.argv[2]!) as Options;
const tell = (message: unknown) => process.send?.(message);
process.on("unhandledRejection", (error) => tell({ type: "unhandled", error: String(error) }));
const running = await serve({
  dataDir: options.dataDir,
  port: options.port,
  log: "off",
  apiKeys: parseApiKeys(options.keys),
  models: await resolveModels([]),
});
const turns = watchTurns();

/**
 * What the open descriptors lead to: sockets, pipes and the like by their kind, files of the data folder by name. Other files are not
 * the server's: onnxruntime keeps a log and a database of its own open from its first session on.
 */
const descriptors = (): string[] =>
  readdirSync("/proc/self/fd")
    .flatMap((name) => {
      try {
        return [readlinkSync(`/proc/self/fd/${name}`)];
      } catch {
        return []; // the one that listed them
      }
    })
    .map((target) => target.replace(/:\[.*\]$/, "").replace(options.dataDir, "data"))
    .filter((target) => !target.startsWith("/"))
    .sort();

const { gc } = globalThis as { gc?: () => void };
const state = () => {
  const seen = turns.look();
  gc!();
  gc!();
  turns.restart(); // the collections are no work of the server
  return {
    descriptors: descriptors(),
    heapBytes: process.memoryUsage().heapUsed,
    ...seen,
  };
};
process.on("message", (message) => {
  if (message !== "state") return;
  tell({ type: "state", ...state() });
});
const stop = () =>
  void running.close().then(() => {
    tell({ type: "stopped", ...turns.look() });
    process.exit(0);
  });
process.on("SIGTERM", stop);
tell({ type: "listening", url: running.url });
