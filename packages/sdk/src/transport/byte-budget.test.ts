import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { ByteBudget, Semaphore } from "./byte-budget.ts";

const later = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

describe("Semaphore", () => {
  it("M-701: lets as many in as there are places, then first come, first served", async () => {
    const semaphore = new Semaphore(2);
    const order: number[] = [];
    const first = await semaphore.acquire();
    const second = await semaphore.acquire();
    const enter = async (number: number) => {
      const release = await semaphore.acquire();
      order.push(number);
      return release;
    };
    const third = enter(3);
    const fourth = enter(4);
    await later();
    expect([order, semaphore.held, semaphore.waiting]).toEqual([[], 2, 2]);
    second();
    second(); // a second release gives nothing back
    await later();
    expect([order, semaphore.held, semaphore.waiting]).toEqual([[3], 2, 1]);
    first();
    (await third)();
    (await fourth)();
    expect([order, semaphore.held]).toEqual([[3, 4], 0]);
  });

  it("enters at once when there is room, without a promise", () => {
    expect(typeof new Semaphore(1).acquire()).toBe("function");
  });

  it("does not let a newcomer pass those who wait", async () => {
    const semaphore = new Semaphore(1);
    const release = await semaphore.acquire();
    const waiting = semaphore.acquire();
    release();
    expect(semaphore.held).toBe(1); // the waiter's
    expect(typeof semaphore.acquire()).toBe("object");
    (await waiting)();
  });

  it("forgets a waiter that is aborted, with its own reason", async () => {
    const semaphore = new Semaphore(1);
    const release = await semaphore.acquire();
    const controller = new AbortController();
    const reason = new Error("enough");
    const aborted = semaphore.acquire(controller.signal);
    const next = semaphore.acquire();
    controller.abort(reason);
    await expect(aborted).rejects.toBe(reason);
    expect(semaphore.waiting).toBe(1);
    release();
    (await next)();
    expect(semaphore.held).toBe(0);
    await expect(semaphore.acquire(controller.signal)).rejects.toBe(reason);
  });

  it("leaves nothing on a signal that outlives the wait", async () => {
    const semaphore = new Semaphore(1);
    const release = await semaphore.acquire();
    const { signal } = new AbortController();
    const waiting = semaphore.acquire(signal);
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    release();
    (await waiting)();
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("lets more in when the limit is raised", async () => {
    const semaphore = new Semaphore(1);
    await semaphore.acquire();
    const second = semaphore.acquire();
    semaphore.limit = 2;
    await second;
    expect(semaphore.held).toBe(2);
  });

  it("ignores an abort after it has entered", async () => {
    const semaphore = new Semaphore(1);
    const controller = new AbortController();
    const release = await semaphore.acquire();
    const second = semaphore.acquire(controller.signal);
    release();
    const held = await second;
    controller.abort();
    expect(semaphore.held).toBe(1);
    held();
    expect(semaphore.held).toBe(0);
  });
});

describe("ByteBudget", () => {
  it("M-701: lets one oversized request pass and makes the next one wait", async () => {
    const budget = new ByteBudget(100);
    const big = await budget.acquire(1000);
    expect(budget.left).toBe(-900);
    let entered = false;
    const next = Promise.resolve(budget.acquire(1)).then((release) => {
      entered = true;
      return release;
    });
    await later();
    expect(entered).toBe(false);
    big();
    (await next)();
    expect(budget.left).toBe(100);
  });

  it("waits only while the budget is overdrawn", async () => {
    const budget = new ByteBudget(10);
    await budget.acquire(10);
    expect(budget.left).toBe(0);
    expect(typeof budget.acquire(1)).toBe("function"); // 0 is not overdrawn
    expect(typeof budget.acquire(1)).toBe("object");
  });

  it("keeps what is held when it is resized", async () => {
    const budget = new ByteBudget(0);
    const release = await budget.acquire(5);
    const waiting = budget.acquire(1);
    budget.resize(10);
    await waiting;
    expect(budget.left).toBe(4);
    release();
    expect(budget.left).toBe(9);
  });

  it("lets the next one in when the first in line gives up", async () => {
    const budget = new ByteBudget(-1);
    const controller = new AbortController();
    const first = budget.acquire(1, controller.signal);
    const second = budget.acquire(1);
    budget.resize(-1);
    controller.abort(new Error("gone"));
    await expect(first).rejects.toThrow("gone");
    budget.resize(0);
    await second;
    expect(budget.left).toBe(-1);
  });
});
