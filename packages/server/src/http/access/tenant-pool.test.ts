/** What tenants share: a lone one has most of it, and a newcomer always finds room. */
import { expect, test } from "vitest";
import { Refusal } from "../../queue/refusal.ts";
import { TenantPool } from "./tenant-pool.ts";

const pool = (capacity: number) => new TenantPool({ capacity, unit: "things", code: "too_many" });

/** Takes one by one until it is refused; how many that were. */
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

test("a tenant has two thirds of what the others leave free, however many came before it", () => {
  const shared = pool(900);
  expect(["a", "b", "c", "d"].map((tenant) => fill(shared, tenant))).toEqual([600, 200, 67, 22]);
  expect(fill(shared, "a")).toBe(0);
  expect(shared.used).toBe(889);
});

test("the last place is taken too, and what is released is free for everyone", () => {
  const shared = pool(1);
  const lease = shared.lease("a");
  lease.take(1);
  expect(fill(shared, "b")).toBe(0);
  lease.release();
  lease.release();
  expect([shared.used, fill(shared, "b")]).toEqual([0, 1]);
});

test("moves what is held to another tenant, or leaves it where it was", () => {
  const shared = pool(9);
  fill(shared, "b");
  const lease = shared.lease("address:1");
  lease.take(1);
  expect(() => lease.moveTo("b")).toThrow(
    "Too many things at once: the share of this key is now 6, and 7 are asked for",
  );
  expect(shared.used).toBe(7);
  lease.moveTo("c");
  expect(shared.used).toBe(7);
  lease.release();
  expect(shared.used).toBe(6);
});
