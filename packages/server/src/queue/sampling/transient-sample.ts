/**
 * A sample of the chat endpoints: its client waits on an open connection, so it is not stored and ends with the connection. It shares the
 * engine's batch and the fair share with stored samples.
 */
import type { SampleRequest, SampleResult, TokenEvent } from "@tinklet/engine";
import { Refusal } from "../refusal.ts";
import type { EngineContext } from "../training/model-runner.ts";

export interface TransientSample {
  readonly tenant: string;
  /** Files of the adapter. Absent: the base model. */
  readonly filesId?: string;
  readonly request: Omit<SampleRequest, "adapter" | "scope">;
  /** Ends the sample, waiting or running. */
  readonly signal: AbortSignal;
  readonly onToken: (event: TokenEvent) => void;
}

export const shuttingDown = (): Refusal =>
  new Refusal(503, "shutting_down", "The server is shutting down and does not store chat requests: retry.", {
    retryAfterSeconds: 1,
  });

/**
 * Runs a transient sample on the current engine.
 *
 * @param queueId - the queue that waits when there is no memory for the adapter.
 * @throws {@link Refusal} 503 when the engine dies; MemoryBusyError when there is no memory for the adapter now.
 */
export async function runTransientSample(
  sample: TransientSample,
  queueId: string,
  engineContext: EngineContext,
): Promise<SampleResult> {
  const { engine, adapterCache, engineGone } = engineContext;
  const { tenant, filesId, request, signal, onToken } = sample;
  const call = (adapter: string | undefined) => {
    signal.throwIfAborted();
    // The prefix cache is per tenant: response times must not reveal the prompts of other tenants.
    const scoped = { ...request, scope: tenant, ...(adapter === undefined ? {} : { adapter }) };
    return engine.sample(scoped, { signal, onToken });
  };
  try {
    return filesId === undefined ? await call(undefined) : await adapterCache.use(filesId, queueId, call);
  } catch (error) {
    if (signal.aborted || !engineGone(error)) throw error;
    throw new Refusal(503, "engine_restarted", "The engine was restarted while it ran this request: retry.", {
      retryAfterSeconds: 1,
    });
  }
}
