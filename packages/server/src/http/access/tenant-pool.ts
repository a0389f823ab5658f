/**
 * A capacity that tenants share: bytes of bodies, requests in flight, connections. One tenant may hold at most two thirds of what the
 * others leave free (dynamic thresholds, as in shared-memory switches). A single tenant can use most of the capacity, and there is always
 * some left for another one, without fixed partitions. A request without a valid key counts for its remote address.
 */
import { Refusal } from "../../queue/refusal.ts";

/** The tenant of requests without a valid key. Names of keys have no colon, so the two cannot collide. */
export const addressTenant = (address: string): string => `address:${address}`;

export interface TenantPoolOptions {
  readonly capacity: number;
  /** The counted unit, for the error message: "bytes of request bodies". */
  readonly unit: string;
  /** Code of the 429. */
  readonly code: string;
}

/** The part of a {@link TenantPool} that one request or connection holds. */
export interface Lease {
  /** @throws {@link Refusal} 429 when the tenant would exceed its share. */
  take(amount: number): void;
  /** Moves the lease to another tenant. @throws {@link Refusal} 429, without a change, when that tenant would exceed its share */
  moveTo(tenant: string): void;
  /** Releases the whole amount. Idempotent. */
  release(): void;
}

export class TenantPool {
  readonly #options: TenantPoolOptions;
  readonly #held = new Map<string, number>();
  #used = 0;

  constructor(options: TenantPoolOptions) {
    this.#options = options;
  }

  /** Amount that all tenants hold together. */
  get used(): number {
    return this.#used;
  }

  lease(tenant: string): Lease {
    let owner = tenant;
    let amount = 0;
    return {
      take: (more) => {
        this.#check(owner, more);
        this.#add(owner, more);
        amount += more;
      },
      moveTo: (next) => {
        if (next === owner) return;
        this.#add(owner, -amount);
        try {
          this.#check(next, amount);
        } catch (error) {
          this.#add(owner, amount);
          throw error;
        }
        owner = next;
        this.#add(owner, amount);
      },
      release: () => {
        this.#add(owner, -amount);
        amount = 0;
      },
    };
  }

  #check(tenant: string, more: number): void {
    const { capacity, unit, code } = this.#options;
    const held = this.#held.get(tenant) ?? 0;
    const share = Math.ceil(((capacity - this.#used + held) * 2) / 3);
    if (held + more <= share) return;
    throw new Refusal(
      429,
      code,
      `Too many ${unit} at once: the share of this key is now ${share}, got ${held + more}. Send fewer at a time.`,
      { retryAfterSeconds: 1 },
    );
  }

  #add(tenant: string, amount: number): void {
    this.#used += amount;
    const held = (this.#held.get(tenant) ?? 0) + amount;
    if (held === 0) this.#held.delete(tenant);
    else this.#held.set(tenant, held);
  }
}
