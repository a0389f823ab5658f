/** Limits concurrent chats, in total and per tenant. A chat counts from its request until its client has read the last byte. */
import type { Limits } from "../../limits.ts";
import { Refusal } from "../../queue/refusal.ts";

export interface ChatSlots {
  /** Takes a slot; the returned function releases it. @throws {@link Refusal} 429 */
  take(tenant: string): () => void;
  /** Number of chats now. */
  readonly used: number;
}

export function createChatSlots(limits: Pick<Limits, "chats" | "chatsPerTenant">): ChatSlots {
  const byTenant = new Map<string, number>();
  let used = 0;
  return {
    take(tenant) {
      const count = byTenant.get(tenant) ?? 0;
      if (used >= limits.chats || count >= limits.chatsPerTenant) {
        const running = count >= limits.chatsPerTenant ? `${count} chats of this key` : `${used} chats`;
        const problem = `${running} are running, which is the limit. Wait until one ends.`;
        throw new Refusal(429, "too_many_chats", problem, { retryAfterSeconds: 1 });
      }
      used++;
      byTenant.set(tenant, count + 1);
      let held = true;
      return () => {
        if (!held) return;
        held = false;
        used--;
        const left = byTenant.get(tenant)! - 1;
        if (left === 0) byTenant.delete(tenant);
        else byTenant.set(tenant, left);
      };
    },
    get used() {
      return used;
    },
  };
}
