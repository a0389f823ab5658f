/** How many chats there are at once. A chat counts from its first byte to the moment when its last one is taken. */
import type { Limits } from "../../limits.ts";
import { Refusal } from "../../queue/refusal.ts";

export interface ChatSlots {
  /** Takes a place; the function gives it back, once. @throws {@link Refusal} 429 */
  take(tenant: string): () => void;
  /** Chats now. */
  readonly used: number;
}

export function createChatSlots(limits: Pick<Limits, "chats" | "chatsPerTenant">): ChatSlots {
  const byTenant = new Map<string, number>();
  let used = 0;
  return {
    take(tenant) {
      const own = byTenant.get(tenant) ?? 0;
      if (used >= limits.chats || own >= limits.chatsPerTenant) {
        const held = own >= limits.chatsPerTenant ? `${own} chats of this key are` : `${used} chats are`;
        throw new Refusal(429, "too_many_chats", `${held} under way, and no more are taken.`, { retryAfterSeconds: 1 });
      }
      used++;
      byTenant.set(tenant, own + 1);
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
