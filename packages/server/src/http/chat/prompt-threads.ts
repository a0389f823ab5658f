/**
 * The threads that prompts are made on. A tenant whose prompt took longer than it may shares a second one with others of the kind for a
 * while: there its next ones keep no one else waiting.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { SideThread } from "../../thread/side-thread.ts";

/** How long a tenant's prompts go to the second thread. */
const apartMs = 600_000;

export interface PromptThreads {
  readonly of: (tenant: string) => SideThread;
  /** A prompt of this tenant took longer than it may. */
  readonly timedOut: (tenant: string) => void;
  readonly close: () => Promise<void>;
}

export function createPromptThreads(clock: Clock, usual: SideThread, apart: SideThread): PromptThreads {
  const until = new Map<string, number>();
  return {
    of: (tenant) => {
      if ((until.get(tenant) ?? 0) > clock.monotonic()) return apart;
      until.delete(tenant);
      return usual;
    },
    timedOut: (tenant) => void until.set(tenant, clock.monotonic() + apartMs),
    close: async () => {
      await Promise.all([usual.close(), apart.close()]);
    },
  };
}
