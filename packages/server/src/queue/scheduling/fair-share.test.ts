import { describe, expect, test } from "vitest";
import { FairShare } from "./fair-share.ts";

const member = (tenant: string, id = tenant) => ({ tenant, id });
/** Picks and charges one of the members; returns its id. */
const serve = (shares: FairShare, of: readonly { tenant: string; id: string }[], cost: number): string => {
  const picked = shares.pick(of)!;
  shares.charge(picked, cost);
  return picked.id;
};
const count = (names: readonly string[], name: string) => names.filter((other) => other === name).length;

describe("fair shares", () => {
  test("a tenant that was idle returns at the usage of the others, not at its old usage", () => {
    const shares = new FairShare();
    const [small, large] = [member("small"), member("large")];
    serve(shares, [small], 10);
    for (let i = 0; i < 1000; i++) serve(shares, [large], 4000);
    const picks = Array.from({ length: 100 }, () => serve(shares, [small, large], 4000));
    expect(Math.abs(count(picks, "small") - 50)).toBeLessThanOrEqual(1);
  });

  test("a model that was idle returns at the usage of its tenant's other models", () => {
    const shares = new FairShare();
    const [old, busy] = [member("t", "old"), member("t", "busy")];
    serve(shares, [old], 10);
    for (let i = 0; i < 1000; i++) serve(shares, [busy], 4000);
    const picks = Array.from({ length: 100 }, () => serve(shares, [old, busy], 4000));
    expect(Math.abs(count(picks, "old") - 50)).toBeLessThanOrEqual(1);
  });

  test("two tenants share by cost, and many models get no larger share than one", () => {
    const shares = new FairShare();
    const many = Array.from({ length: 9 }, (_, i) => member("many", `m${i}`));
    const picks = Array.from({ length: 400 }, () => serve(shares, [member("one"), ...many], 7));
    expect(count(picks, "one")).toBe(200);
    for (const { id } of many) expect(Math.abs(count(picks, id) - 200 / 9)).toBeLessThan(2);
    const costly = new FairShare();
    const served: string[] = [];
    for (let i = 0; i < 400; i++) {
      const picked = costly.pick([member("long"), member("short")])!;
      costly.charge(picked, picked.id === "long" ? 300 : 100);
      served.push(picked.id);
    }
    expect(count(served, "short") / count(served, "long")).toBeCloseTo(3, 1);
  });
});
