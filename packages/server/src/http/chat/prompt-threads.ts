/**
 * The two threads that make prompts. After a prompt that exceeded its time limit, a tenant's prompts run on the second thread for a while,
 * where they delay only other such tenants.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { SideThread } from "../../thread/side-thread.ts";

/** Time for which a tenant's prompts run on the second thread. */
const separateMs = 600_000;

export interface PromptThreads {
  readonly of: (tenant: string) => SideThread;
  /** Records that a prompt of this tenant exceeded its time limit. */
  readonly timedOut: (tenant: string) => void;
  readonly close: () => Promise<void>;
}

export function createPromptThreads(clock: Clock, first: SideThread, second: SideThread): PromptThreads {
  const separateUntil = new Map<string, number>();
  return {
    of: (tenant) => {
      if ((separateUntil.get(tenant) ?? 0) > clock.monotonic()) return second;
      separateUntil.delete(tenant);
      return first;
    },
    timedOut: (tenant) => void separateUntil.set(tenant, clock.monotonic() + separateMs),
    close: async () => {
      await Promise.all([first.close(), second.close()]);
    },
  };
}
