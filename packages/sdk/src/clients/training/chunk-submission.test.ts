import {
  APIConnectionError,
  APITimeoutError,
  InvalidInputError,
  statusError,
  UnprocessableEntityError,
} from "@tinklet/wire/errors";
import { describe, expect, it } from "vitest";
import { batch, failure } from "../../testing/harness.ts";
import { type ChunkSender, submitChunks } from "./chunk-submission.ts";
import { SubmissionQueue } from "./submission-queue.ts";

/** Submits n chunks of one datum each; `fails` says which chunk (from 0) meets which error. */
async function submit(
  n: number,
  fails: Readonly<Record<number, unknown>> = {},
  options: { parallel?: boolean; fillFails?: unknown } = {},
) {
  const data = batch(n);
  const chunks = data.map((datum) => ({ data: [datum], bytes: 1 }));
  const log: string[] = [];
  const sender: ChunkSender = {
    send: async (chunk, seqId) => {
      const i = chunks.indexOf(chunk as (typeof chunks)[0]);
      log.push(`send ${i} as ${seqId}`);
      await Promise.resolve();
      if (i in fails) throw fails[i];
      return { requestId: `r${i}`, roundtripMs: 1 };
    },
    fill: async (datum, seqId) => {
      log.push(`fill ${seqId} with ${data.indexOf(datum as (typeof data)[0])}`);
      if (options.fillFails !== undefined) throw options.fillFails;
    },
    gap: (seqId, error) => log.push(`gap ${seqId}: ${(error as Error).message}`),
  };
  const queue = new SubmissionQueue(async () => {});
  const outcome = await queue
    .submit((turn) => submitChunks(turn, chunks, sender, { parallel: options.parallel ?? true }))
    .catch((error: unknown) => error as Error & { hint?: string });
  return { log, outcome, next: await queue.submitOne(async (seqId) => seqId) };
}
const no = statusError("no", { status: 422, hint: "Own hint." });

describe("in parallel", () => {
  it("M-602: chunks 2 to n first, the first chunk last; results in the order of the batch", async () => {
    const { log, outcome, next } = await submit(3);
    expect(log).toEqual(["send 1 as 2", "send 2 as 3", "send 0 as 1"]);
    expect((outcome as { requestId: string }[]).map(({ requestId }) => requestId)).toEqual(["r0", "r1", "r2"]);
    expect(next).toBe(4);
  });

  it("a single chunk needs no ceremony", async () => {
    const { log, next } = await submit(1);
    expect([log, next]).toEqual([["send 0 as 1"], 2]);
  });

  it("a refused later chunk: the first is not sent, every hole is filled with a datum that was accepted", async () => {
    const { log, outcome, next } = await submit(4, { 2: no });
    expect(log).toEqual(["send 1 as 2", "send 2 as 3", "send 3 as 4", "fill 1 with 1", "fill 3 with 1"]);
    expect(outcome).toBeInstanceOf(UnprocessableEntityError);
    expect(outcome).toMatchObject({ message: "no", status: 422, cause: no });
    expect((outcome as { hint: string }).hint).toMatch(
      /^Own hint\. 2 of 4 chunks of this batch were accepted; their gradients/,
    );
    expect(next).toBe(5);
  });

  it("a refused first chunk leaves its own hole", async () => {
    const { log } = await submit(3, { 0: no });
    expect(log).toEqual(["send 1 as 2", "send 2 as 3", "send 0 as 1", "fill 1 with 1"]);
  });

  it("nothing accepted: the numbers are still used up, and the error is unchanged", async () => {
    const { log, outcome, next } = await submit(2, { 1: no });
    expect(log).toEqual(["send 1 as 2", "fill 1 with 0", "fill 2 with 0"]);
    expect([outcome, next]).toEqual([no, 3]);
  });

  it("nothing sent: every number is given back", async () => {
    const unsendable = new InvalidInputError("a", "b");
    const { log, outcome, next } = await submit(3, { 1: unsendable, 2: unsendable });
    expect(log).toEqual(["send 1 as 2", "send 2 as 3"]);
    expect([outcome, next]).toEqual([unsendable, 1]);
  });

  it("one unsendable chunk among accepted ones is a hole like any other", async () => {
    const { log, next } = await submit(3, { 1: new InvalidInputError("a", "b") });
    expect(log.slice(2)).toEqual(["fill 1 with 2", "fill 2 with 2"]);
    expect(next).toBe(4);
  });

  it("a hole that cannot be filled is reported, and blocks nothing", async () => {
    const { log, outcome } = await submit(
      3,
      { 2: new APIConnectionError("reset") },
      { fillFails: new Error("still down") },
    );
    expect(log.slice(2)).toEqual(["fill 1 with 1", "fill 3 with 1", "gap 1: still down", "gap 3: still down"]);
    expect(outcome).toBeInstanceOf(APIConnectionError);
    expect(outcome).toMatchObject({ code: "connection" });
    expect((outcome as { hint: string }).hint).toMatch(/^1 of 3 chunks/);
  });

  it("keeps the class of a timeout, and leaves other errors unchanged", async () => {
    const { outcome } = await submit(3, { 2: new APITimeoutError("late") });
    expect(outcome).toBeInstanceOf(APITimeoutError);
    const bug = new RangeError("bug");
    expect((await submit(3, { 2: bug })).outcome).toBe(bug);
  });
});

describe("one by one", () => {
  it("M-602: in the order of the batch", async () => {
    const { log, next } = await submit(3, {}, { parallel: false });
    expect([log, next]).toEqual([["send 0 as 1", "send 1 as 2", "send 2 as 3"], 4]);
  });

  it("the rest of a failed batch is not sent and draws no numbers", async () => {
    const { log, outcome, next } = await submit(3, { 1: no }, { parallel: false });
    expect([log, next]).toEqual([["send 0 as 1", "send 1 as 2"], 3]);
    expect((outcome as { hint: string }).hint).toContain("1 of 3 chunks");
  });

  it("what cannot be sent gives its number back", async () => {
    const { next } = await submit(3, { 1: new InvalidInputError("a", "b") }, { parallel: false });
    expect(next).toBe(2);
  });
});

it("failure() of the harness fails when nothing fails", async () => {
  await expect(failure(Promise.resolve())).rejects.toThrow("did not fail");
});
