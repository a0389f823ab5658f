/** The public engine in Node: a proxy for an `EngineCore`, which normally runs in a worker so that the caller's event loop stays free. */
import { openCore } from "./open-core.ts";
import { checkOptions } from "./options.ts";
import type { Engine, EngineOptions } from "./types.ts";
import { directLink, engineOf, type Link, threadLink } from "./worker/link.ts";
import type { FromWorker, WorkerStart } from "./worker/messages.ts";
import { createGate, watchGate } from "./worker/native-call-gate.ts";
import { startThread } from "./worker/start-thread.ts";

/** One per process, because runs of two engines at once can crash a device's driver: 0 is free, 1 is held. */
const deviceLock = new Int32Array(new SharedArrayBuffer(4));

/** A core in a worker thread. */
async function workerLink(
  start: Pick<WorkerStart, "source" | "options">,
  callbacks: Pick<EngineOptions, "onNotice" | "onProgress" | "signal">,
): Promise<Link> {
  const gate = createGate();
  const worker = await startThread(import.meta.url, "worker/worker", {
    workerData: { ...start, gate, deviceLock } satisfies WorkerStart,
  });
  worker.once("exit", watchGate(gate));
  return threadLink(
    {
      post: (message, transfer = []) => worker.postMessage(message, transfer),
      onMessage: (receive) => worker.on("message", (message: FromWorker) => receive(message)),
      onEnd: (ended) => {
        worker.once("error", ended);
        worker.once("exit", () => ended());
      },
      terminate: async () => {
        await worker.terminate();
      },
      setBusy: (isBusy) => (isBusy ? worker.ref() : worker.unref()),
    },
    callbacks,
  );
}

/**
 * Opens a model: a folder, a `.safetensors` or `.gguf` file, or a Hub id.
 *
 * @throws InputError for an invalid option, ConfigError for an unsupported model, WeightsError for bad files, HubError for a failed
 *   download, MemoryError if the model does not fit the budget.
 * @example
 * ```ts
 * await using engine = await openEngine("./SmolLM2-135M");
 * const { adapterId } = await engine.createAdapter({ rank: 16 });
 * await engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" });
 * await engine.optimStep(adapterId, { learningRate: 1e-4 });
 * const { sequences } = await engine.sample({ prompt, adapter: adapterId, params: { maxTokens: 64 } });
 * ```
 */
export async function openEngine(source: string, options: EngineOptions = {}): Promise<Engine> {
  checkOptions(options);
  options.signal?.throwIfAborted();
  const { onProgress, onNotice, signal, inThread, ...plain } = options;
  const notice = onNotice ?? ((message: string) => console.warn(`tinklet engine: ${message}`));
  const more = signal ? { signal } : {};
  const link = inThread
    ? directLink(
        await openCore(source, plain, { notice, progress: (progress) => onProgress?.(progress), deviceLock, ...more }),
      )
    : await workerLink(
        { source, options: plain },
        { ...(onProgress ? { onProgress } : {}), onNotice: notice, ...more },
      );
  return engineOf(link);
}
