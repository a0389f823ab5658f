/**
 * Fair-share scheduling: the candidate with the lowest usage is served next. Usage is compared between tenants first, then between the
 * models or samplers of the chosen tenant, so that a tenant with many models gets no larger share than a tenant with one.
 */

/** Usage by name. */
class UsageLedger {
  readonly #usage = new Map<string, number>();
  /** The candidates of the last pick. */
  #active: ReadonlySet<string> = new Set();
  /** Usage floor: a newcomer starts at the usage of the last candidate served, so that idle time earns no credit. */
  #floor = 0;

  /** The candidate with the lowest usage. */
  pick(names: Iterable<string>): string | undefined {
    const active = new Set(names);
    for (const name of active) {
      if (!this.#active.has(name)) this.#usage.set(name, Math.max(this.#usage.get(name) ?? 0, this.#floor));
    }
    this.#active = active;
    let best: string | undefined;
    for (const name of active) if (best === undefined || this.#of(name) < this.#of(best)) best = name;
    if (best !== undefined) this.#floor = Math.max(this.#floor, this.#of(best));
    return best;
  }

  charge(name: string, cost: number): void {
    const usage = this.#of(name) + cost;
    this.#usage.delete(name);
    this.#usage.set(name, usage);
    // Bounds the map: drops the name that was charged longest ago, which starts at the floor when it returns.
    if (this.#usage.size > 1000) this.#usage.delete(this.#usage.keys().next().value!);
  }

  #of(name: string): number {
    return this.#usage.get(name) ?? this.#floor;
  }
}

export class FairShare {
  readonly #tenants = new UsageLedger();
  readonly #members = new Map<string, UsageLedger>();

  /** The candidate to serve next. */
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

  /** Adds the cost of a request, in tokens, to the usage of the member and of its tenant. */
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
