/**
 * Who is served next when several want the same engine: the one that has had least. Two levels, tenants and then their own
 * members (models or samplers), so that many models do not buy a tenant more than one model does.
 */

interface Account {
  served: number;
  readonly members: Map<string, number>;
}

export class FairShare {
  readonly #tenants = new Map<string, Account>();

  /**
   * The candidate to serve next. One that was idle starts level with the least served of the others: waiting earns no credit.
   */
  pick<T extends { readonly tenant: string; readonly id: string }>(candidates: Iterable<T>): T | undefined {
    const byTenant = new Map<string, T[]>();
    for (const candidate of candidates) {
      const group = byTenant.get(candidate.tenant);
      if (group === undefined) byTenant.set(candidate.tenant, [candidate]);
      else group.push(candidate);
    }
    const tenant = least([...byTenant.keys()], (name) => this.#tenants.get(name)?.served);
    if (tenant === undefined) return undefined;
    const members = this.#tenants.get(tenant)?.members;
    return least(byTenant.get(tenant)!, ({ id }) => members?.get(id));
  }

  /** Books what serving it cost. */
  charge(member: { readonly tenant: string; readonly id: string }, cost: number): void {
    const account = this.#tenants.get(member.tenant) ?? { served: this.#floor(), members: new Map<string, number>() };
    this.#tenants.set(member.tenant, account);
    account.served += cost;
    const floor = account.members.size === 0 ? 0 : Math.min(...account.members.values());
    account.members.set(member.id, Math.max(account.members.get(member.id) ?? 0, floor) + cost);
    // The books only compare those who want something now: long lists are cut to the recent ones.
    if (account.members.size > 1000) account.members.delete(account.members.keys().next().value!);
  }

  #floor(): number {
    return this.#tenants.size === 0 ? 0 : Math.min(...[...this.#tenants.values()].map(({ served }) => served));
  }
}

function least<T>(items: readonly T[], served: (item: T) => number | undefined): T | undefined {
  let best: T | undefined;
  let bestServed = Infinity;
  for (const item of items) {
    const value = served(item) ?? -1; // never served: first
    if (value < bestServed) {
      best = item;
      bestServed = value;
    }
  }
  return best;
}
