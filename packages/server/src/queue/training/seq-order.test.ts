import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SeqOrder } from "./seq-order.ts";

const job = (seq?: number) => ({ seq });
const drain = (order: SeqOrder<{ seq: number | undefined }>) => {
  const taken: (number | undefined)[] = [];
  for (let next = order.take(); next !== undefined; next = order.take()) taken.push(next.seq);
  return taken;
};

describe("SeqOrder", () => {
  test("runs by seq_id, independent of the order of arrival", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([1, 2, 3, 4, 5, 6, 7, 8], { minLength: 8, maxLength: 8 }), (arrival) => {
        const order = new SeqOrder<{ seq: number | undefined }>(1);
        const taken: (number | undefined)[] = [];
        for (const seq of arrival) {
          order.add(job(seq));
          taken.push(...drain(order));
        }
        expect(taken).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      }),
    );
  });

  test("does not wait for consumed seq_ids, independent of the order in which they are consumed", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    order.add(job(4));
    order.consume(2);
    order.consume(3);
    expect(order.missing).toBe(1);
    order.consume(1);
    expect(drain(order)).toEqual([4]);
    expect(order.next).toBe(5);
  });

  test("a gap is reported, and skipped on demand", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    order.add(job(5));
    expect(order.missing).toBe(1);
    expect(order.skipMissing()).toEqual({ from: 1, to: 5 });
    expect(drain(order)).toEqual([5]);
    expect(order.missing).toBeUndefined();
  });

  test("a request without a seq_id runs after all requests that arrived before it", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    order.add(job(2));
    order.add(job());
    order.add(job(3));
    expect(order.peek()).toBeUndefined();
    order.add(job(1));
    expect(drain(order)).toEqual([1, 2, undefined, 3]);
  });

  test("requests that are put back run first", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    for (const seq of [1, 2, 3]) order.add(job(seq));
    const [one, two] = [order.take()!, order.take()!];
    order.putBack(two);
    order.putBack(one);
    expect(drain(order)).toEqual([1, 2, 3]);
  });

  test("a skip over large ranges does not iterate over the numbers", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    for (let seq = 3; seq < 300_003; seq++) order.consume(seq);
    order.add(job(2 ** 31 - 1));
    expect(order.skipMissing()).toEqual({ from: 1, to: 3 });
    expect(order.skipMissing()).toEqual({ from: 300_003, to: 2 ** 31 - 1 });
    expect(drain(order)).toEqual([2 ** 31 - 1]);
  });

  test("a request that is put back after a skip runs first, and the skip stays", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    order.add(job(1));
    const first = order.take()!;
    order.add(job(2 ** 31 - 1));
    order.skipMissing();
    order.putBack(first);
    expect(order.next).toBe(1);
    expect(order.size).toBe(2);
    expect(drain(order)).toEqual([1, 2 ** 31 - 1]);
    expect(order.missing).toBeUndefined();
  });

  test("a request whose seq_id was skipped before it was added runs first", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    order.add(job(5));
    order.skipMissing();
    order.add(job(3));
    order.add(job(2));
    expect(order.next).toBe(2);
    expect(drain(order)).toEqual([2, 3, 5]);
    expect(order.next).toBe(6);
  });

  test("several requests that are put back keep their order", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    for (const seq of [1, 2, undefined]) order.add(job(seq));
    const taken = [order.take()!, order.take()!, order.take()!];
    order.consume(4);
    for (const one of taken) order.putBack(one);
    order.add(job(3));
    order.add(job(5));
    expect(drain(order)).toEqual([1, 2, undefined, 3, 5]);
  });

  test("the position in a long queue is correct before and after a request is taken", () => {
    const order = new SeqOrder<{ seq: number | undefined }>(1);
    const jobs = Array.from({ length: 100_000 }, (_, i) => job(i + 2));
    for (const each of jobs) order.add(each);
    let wrong = 0;
    for (const [i, each] of jobs.entries()) if (order.ahead(each) !== i) wrong++;
    expect(wrong).toBe(0);
    order.add(job(1));
    order.take();
    expect(order.ahead(jobs[10]!)).toBe(10);
    order.take();
    expect(order.ahead(jobs[10]!)).toBe(9);
  });
});
