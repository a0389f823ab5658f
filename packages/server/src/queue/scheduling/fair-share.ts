/**
 * Who is served next when several want the same engine: the one that has had least. Two levels, tenants and then their own
 * members (models or samplers), so that many models do not buy a tenant more than one model does.
 */

/** What each of several has had, by name, and a clock that goes with it. */
class UsageLedger {
  readonly #served = new Map<string, number>();
  /** Who wanted something at the last pick. */
  #active: ReadonlySet<string> = new Set();
  /** What the one that was served last had had before: nobody who comes now starts below it. */
  #level = 0;

  /** The name to serve next: the one that has had least. One that comes back from idling starts level with the others. */
  pick(names: Iterable<string>): string | undefined {
    const active = new Set(names);
    for (const name of active) {
      if (!this.#active.has(name)) this.#served.set(name, Math.max(this.#served.get(name) ?? 0, this.#level));
    }
    this.#active = active;
    let best: string | undefined;
    for (const name of active) if (best === undefined || this.#of(name) < this.#of(best)) best = name;
    if (best !== undefined) this.#level = Math.max(this.#level, this.#of(best));
    return best;
  }

  charge(name: string, cost: number): void {
    const served = this.#of(name) + cost;
    this.#served.delete(name);
    this.#served.set(name, served);
    // Only those who want something now are compared: of many, the ones that were not served for longest are forgotten.
    if (this.#served.size > 1000) this.#served.delete(this.#served.keys().next().value!);
  }

  #of(name: string): number {
    return this.#served.get(name) ?? this.#level;
  }
}

export class FairShare {
  readonly #tenants = new UsageLedger();
  readonly #members = new Map<string, UsageLedger>();

  /** The candidate to serve next. Waiting earns no credit, and neither does having been away. */
  pick<T extends { readonly tenant: string; readonly id: string }>(candidates: Iterable<T>): T | undefined {
    const byTenant = new Map<string, Map<string, T>>();
    for (const candidate of candidates) {
      const group = byTenant.get(candidate.tenant);
      if (group === undefined) byTenant.set(candidate.tenant, new Map([[candidate.id, candidate]]));
      else group.set(candidate.id, candidate);
    }
    const tenant = this.#tenants.pick(byTenant.keys());
    if (tenant === undefined) return undefined;
    const group = byTenant.get(tenant)!;
    return group.get(this.#ledgerOf(tenant).pick(group.keys())!);
  }

  /** Books what serving it cost. */
  charge(member: { readonly tenant: string; readonly id: string }, cost: number): void {
    this.#tenants.charge(member.tenant, cost);
    this.#ledgerOf(member.tenant).charge(member.id, cost);
  }

  #ledgerOf(tenant: string): UsageLedger {
    let ledger = this.#members.get(tenant);
    if (ledger === undefined) {
      ledger = new UsageLedger();
      this.#members.set(tenant, ledger);
    }
    return ledger;
  }
}
