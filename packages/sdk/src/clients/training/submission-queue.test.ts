import { getEventListeners } from "node:events";
import { untilAborted } from "@tinklet/wire/abort";
import { InvalidInputError, statusError } from "@tinklet/wire/errors";
import { describe, expect, it } from "vitest";
import { failure } from "../../testing/harness.ts";
import { SubmissionQueue } from "./submission-queue.ts";

/** A promise whose end the test decides. */
function open<T = void>() {
  let resolve: (value: T) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
const later = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

describe("SubmissionQueue", () => {
  it("M-601: one at a time, in the order of the calls, numbered from 1", async () => {
    const queue = new SubmissionQueue(async () => {});
    const gates = [open(), open(), open()];
    const started: number[] = [];
    const sent = gates.map((gate, i) =>
      queue.submitOne(async (seqId) => {
        started.push(seqId);
        await gate.promise;
        return `${i}:${seqId}`;
      }),
    );
    gates[2]?.resolve();
    gates[1]?.resolve();
    await later();
    expect([started, queue.length]).toEqual([[1], 3]);
    gates[0]?.resolve();
    expect(await Promise.all(sent)).toEqual(["0:1", "1:2", "2:3"]);
    await later();
    expect(queue.length).toBe(0);
  });

  it("a failed submission does not block the line, and its number is not used again", async () => {
    const queue = new SubmissionQueue(async () => {});
    const numbers: number[] = [];
    const send = (error?: Error) =>
      queue.submitOne(async (seqId) => {
        numbers.push(seqId);
        if (error !== undefined) throw error;
      });
    const refused = failure(send(statusError("no", { status: 422 })));
    const lost = failure(send(new Error("reset")));
    await send();
    expect([(await refused).message, (await lost).message]).toEqual(["no", "reset"]);
    expect(numbers).toEqual([1, 2, 3]);
  });

  it("what turns out not to be sendable gives its number back", async () => {
    const queue = new SubmissionQueue(async () => {});
    await failure(queue.submitOne(() => Promise.reject(new InvalidInputError("a", "b"))));
    expect(await queue.submitOne(async (seqId) => seqId)).toBe(1);
  });

  it("aborted while it waits: it leaves at once, draws no number, and the next one goes", async () => {
    const queue = new SubmissionQueue(async () => {});
    const gate = open();
    const first = queue.submitOne(() => gate.promise);
    const controller = new AbortController();
    let sent = false;
    const second = queue.submitOne(async () => {
      sent = true;
    }, controller.signal);
    const third = queue.submitOne(async (seqId) => seqId);
    controller.abort("enough");
    await expect(second).rejects.toBe("enough"); // although the first is still on its way
    gate.resolve();
    await first;
    expect([await third, sent]).toEqual([2, false]);
  });

  it("aborted before the call: nothing is sent", async () => {
    const queue = new SubmissionQueue(async () => {});
    await expect(queue.submitOne(async (seqId) => seqId, AbortSignal.abort("no"))).rejects.toBe("no");
    expect(await queue.submitOne(async (seqId) => seqId)).toBe(1);
  });

  it("aborted while it is sent: the waiting ends, the submission does not, and the next one waits for it", async () => {
    const queue = new SubmissionQueue(async () => {});
    const gate = open();
    const log: string[] = [];
    const controller = new AbortController();
    const first = queue.submitOne(async () => {
      await gate.promise;
      log.push("first sent");
    }, controller.signal);
    await later();
    const second = queue.submitOne(async (seqId) => log.push(`second ${seqId}`));
    controller.abort("enough");
    await expect(first).rejects.toBe("enough");
    await later();
    expect(log).toEqual([]);
    gate.resolve();
    await second;
    expect(log).toEqual(["first sent", "second 2"]);
  });

  it("a turn may draw several numbers, and give the last ones back", async () => {
    const queue = new SubmissionQueue(async () => {});
    await queue.submit(async (turn) => {
      expect([turn.draw(3), turn.draw()]).toEqual([1, 4]);
      turn.giveBack(3);
      turn.giveBack(9); // never drawn: nothing to give
    });
    expect(await queue.submitOne(async (seqId) => seqId)).toBe(3);
  });

  it("a send that throws at once is a rejection like any other", async () => {
    const queue = new SubmissionQueue(async () => {});
    const thrown = queue.submit(() => {
      throw new Error("sync");
    });
    await expect(thrown).rejects.toThrow("sync");
    expect(await queue.submitOne(async (seqId) => seqId)).toBe(1);
  });
});

describe("untilAborted", () => {
  it("passes an outcome on, and forgets the signal", async () => {
    const { signal } = new AbortController();
    expect(await untilAborted(Promise.resolve(1), signal)).toBe(1);
    await expect(untilAborted(Promise.reject(new Error("x")), signal)).rejects.toThrow("x");
    expect(await untilAborted(Promise.resolve(2))).toBe(2);
  });

  it("leaves no listener on a signal that outlives the call, for every outcome", async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const listeners = () => getEventListeners(signal, "abort").length;
    await untilAborted(Promise.resolve(1), signal);
    expect(listeners()).toBe(0);
    await failure(untilAborted(Promise.reject(new Error("x")), signal));
    expect(listeners()).toBe(0);
    const waiting = untilAborted(new Promise(() => {}), signal);
    expect(listeners()).toBe(1);
    controller.abort("over");
    await expect(waiting).rejects.toBe("over");
    expect(listeners()).toBe(0);
  });

  it("prefers the abort when it came first", async () => {
    await expect(untilAborted(Promise.resolve(1), AbortSignal.abort("first"))).rejects.toBe("first");
  });
});
