/**
 * The server of the streams drill: the bundled model in a process of its own. It counts, for each request under the other key, the steps
 * that the engine made between the request's head and its first token: every step gives one token to each sequence of the batch, so that it
 * is what the busiest of them got meanwhile. Tells its parent over IPC. Needs `--expose-gc`.
 */
import { subscribe } from "node:diagnostics_channel";
import { readdirSync, readlinkSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import type { Engine, SampleOptions, SampleRequest } from "@tinklet/engine";
import { hashApiKey } from "../../../packages/server/src/http/access/auth.ts";
import { resolveModels } from "../../../packages/server/src/models.ts";
import { serve } from "../../../packages/server/src/serve.ts";

const tell = (message: unknown) => process.send?.(message);
process.on("unhandledRejection", (error) => tell({ type: "unhandled", error: String(error) }));

/** Tokens of each sample that is on the engine. */
const drawn = new Map<object, number>();
/** What those had when a request of the other key came that has no token yet. */
const arrivals: Map<object, number>[] = [];
const delays: number[] = [];
let most = 0;
subscribe("http.server.request.start", (message) => {
  const { request } = message as { request: IncomingMessage };
  if (request.headers.authorization === "Bearer tml-other") arrivals.push(new Map(drawn));
});

let engine: Engine | undefined;
const counting = (inner: Engine): Engine => ({
  ...inner,
  info: inner.info,
  tokenizer: inner.tokenizer,
  stats: () => inner.stats(),
  close: () => inner.close(),
  sample: async (request: SampleRequest, options: SampleOptions = {}) => {
    const id = {};
    drawn.set(id, 0);
    most = Math.max(most, drawn.size);
    let isFirst = request.scope === "other";
    const onToken: SampleOptions["onToken"] = (event) => {
      drawn.set(id, drawn.get(id)! + 1);
      const before = isFirst ? arrivals.shift() : undefined;
      isFirst = false;
      if (before !== undefined) {
        const steps = [...drawn]
          .filter(([each]) => each !== id)
          .map(([each, count]) => count - (before.get(each) ?? 0));
        delays.push(Math.max(0, ...steps));
      }
      options.onToken?.(event);
    };
    try {
      return await inner.sample(request, { ...options, onToken });
    } finally {
      drawn.delete(id);
    }
  },
});

const [bundled] = await resolveModels([]);
const open = async () => {
  engine = counting(await bundled!.open());
  return engine;
};
const running = await serve({
  port: 0,
  log: "off",
  models: [{ ...bundled!, open }],
  apiKeys: ["hostile", "other"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
});

const sockets = (): number =>
  readdirSync("/proc/self/fd").filter((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`).startsWith("socket:");
    } catch {
      return false; // the one that listed them
    }
  }).length;
const { gc } = globalThis as { gc?: () => void };

process.on("message", (message) => {
  if (message === "state") {
    void engine!.stats().then(({ activeSequences, waitingSequences, cacheBytes }) => {
      gc!();
      const heapBytes = process.memoryUsage().heapUsed;
      tell({
        type: "state",
        sockets: sockets(),
        activeSequences,
        waitingSequences,
        cacheBytes,
        heapBytes,
        delays,
        onEngine: drawn.size,
        most,
      });
    });
  } else void running.close().then(() => process.exit(0));
});
tell({ type: "listening", url: running.url, ends: engine!.info.eosTokenIds });
