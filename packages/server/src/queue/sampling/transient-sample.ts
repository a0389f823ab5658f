/**
 * Sequences drawn for a client that is there and waits: chats. The engine's batch and the fair shares are those of samples; the database
 * is not asked, and nothing outlives the client.
 */
import type { SampleRequest, SampleResult, TokenEvent } from "@tinklet/engine";
import { Refusal } from "../refusal.ts";
import type { EngineContext } from "../training/model-runner.ts";

export interface TransientSample {
  readonly tenant: string;
  /** Adapter to draw from. Absent: the base model. */
  readonly filesId?: string;
  readonly request: Omit<SampleRequest, "adapter" | "scope">;
  /** Ends it, waiting or running. */
  readonly signal: AbortSignal;
  readonly onToken: (event: TokenEvent) => void;
}

export const shuttingDown = (): Refusal =>
  new Refusal(503, "shutting_down", "The server is shutting down, and chats are not kept: send it again.", {
    retryAfterSeconds: 1,
  });

/**
 * Runs a draw on the engine as it is now.
 *
 * @throws {@link Refusal} 503 when the engine dies under it; MemoryBusyError when its adapter finds no room now.
 */
export async function runTransientSample(
  draw: TransientSample,
  line: string,
  engineContext: EngineContext,
): Promise<SampleResult> {
  const { engine, adapterCache, engineGone } = engineContext;
  const { tenant, filesId, request, signal, onToken } = draw;
  const call = (adapter: string | undefined) => {
    signal.throwIfAborted();
    // What one tenant has asked must not make another's answer faster.
    const asked = { ...request, scope: tenant, ...(adapter === undefined ? {} : { adapter }) };
    return engine.sample(asked, { signal, onToken });
  };
  try {
    return filesId === undefined ? await call(undefined) : await adapterCache.use(filesId, line, call);
  } catch (error) {
    if (signal.aborted || !engineGone(error)) throw error;
    throw new Refusal(503, "engine_restarted", "The engine had to be started again: send it again.", {
      retryAfterSeconds: 1,
    });
  }
}
