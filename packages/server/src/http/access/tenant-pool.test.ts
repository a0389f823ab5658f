/** A shared capacity: a single tenant can use most of it, and there is always some left for another one. */
import { expect, test } from "vitest";
import { Refusal } from "../../queue/refusal.ts";
import { TenantPool } from "./tenant-pool.ts";

const pool = (capacity: number) => new TenantPool({ capacity, unit: "things", code: "too_many" });

/** Takes units one by one until a refusal; returns their number. */
function fill(shared: TenantPool, tenant: string): number {
  const lease = shared.lease(tenant);
  for (let taken = 0; ; taken++) {
    try {
      lease.take(1);
    } catch (error) {
      expect(error).toBeInstanceOf(Refusal);
      expect(error).toMatchObject({ status: 429, code: "too_many", retryAfterSeconds: 1 });
      return taken;
    }
  }
}

test("a tenant gets two thirds of what the others leave free, for any number of tenants", () => {
  const shared = pool(900);
  expect(["a", "b", "c", "d"].map((tenant) => fill(shared, tenant))).toEqual([600, 200, 67, 22]);
  expect(fill(shared, "a")).toBe(0);
  expect(shared.used).toBe(889);
});

test("the last unit can be taken too, and released units are free for all tenants", () => {
  const shared = pool(1);
  const lease = shared.lease("a");
  lease.take(1);
  expect(fill(shared, "b")).toBe(0);
  lease.release();
  lease.release();
  expect([shared.used, fill(shared, "b")]).toEqual([0, 1]);
});

test("moves a lease to another tenant, or leaves it unchanged when that is refused", () => {
  const shared = pool(9);
  fill(shared, "b");
  const lease = shared.lease("address:1");
  lease.take(1);
  expect(() => lease.moveTo("b")).toThrow("Too many things at once: the share of this key is now 6, got 7");
  expect(shared.used).toBe(7);
  lease.moveTo("c");
  expect(shared.used).toBe(7);
  lease.release();
  expect(shared.used).toBe(6);
});
