import { describe, expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../database.ts";
import {
  addRequest,
  deleteSpent,
  expireResults,
  finishRequest,
  type NewRequest,
  pendingRequests,
  replayRequests,
} from "./requests.ts";

const day = 86_400_000;
const open = () => {
  const db = openDatabase({ file: ":memory:" });
  onTestFinished(() => db.close());
  return db.sql;
};
const request = (seq: number, more: Partial<NewRequest> = {}): NewRequest => ({
  tenant: "t",
  sessionId: "s",
  kind: "forward_backward",
  modelId: "m",
  seq,
  fingerprint: "f",
  payload: new Uint8Array(1000),
  payloadType: "proto",
  tokens: 1,
  now: 0,
  ...more,
});
const finished = { state: "done", result: new Uint8Array(10), resultType: "json", startedAt: 0 } as const;

describe("recovery", () => {
  test("reads the sizes of pending payloads, not the payloads", () => {
    const sql = open();
    addRequest(sql, request(1));
    const [row] = pendingRequests(sql);
    expect(row).toMatchObject({ seq: 1, payload_bytes: 1000 });
    expect(row).not.toHaveProperty("payload");
    expect(row).not.toHaveProperty("result");
  });

  test("a replay reads one request at a time", () => {
    const sql = open();
    for (let seq = 1; seq <= 3; seq++) {
      const id = addRequest(sql, request(seq));
      finishRequest(sql, { ...finished, id, keepPayload: true, position: seq, finishedAt: 0 });
    }
    const seen: (number | null)[] = [];
    for (const row of replayRequests(sql, "m", 1)) {
      // later requests have not been read yet, so a change now is visible in them
      sql.run("UPDATE requests SET tokens = 7 WHERE position = 3");
      seen.push(row.position, row.tokens);
    }
    expect(seen).toEqual([2, 1, 3, 7]);
  });
});

describe("expired results", () => {
  test("are deleted in batches of the given size", () => {
    const sql = open();
    for (let i = 0; i < 25; i++) {
      const id = addRequest(sql, request(i, { modelId: undefined as never, kind: "sample" }));
      finishRequest(sql, { ...finished, id, keepPayload: false, position: null, finishedAt: i < 15 ? 0 : 8 * day });
      if (i >= 20) sql.run("UPDATE requests SET retrieved_at = ? WHERE id = ?", 8 * day, id);
    }
    const left = () => sql.get<{ n: number }>("SELECT COUNT(*) AS n FROM requests")!.n;
    expect(expireResults(sql, 8 * day, 10)).toBe(10);
    expect(expireResults(sql, 8 * day, 10)).toBe(5);
    expect(expireResults(sql, 8 * day, 10)).toBe(0);
    expect(left()).toBe(25);
    const next = deleteSpent(sql, 0, 10);
    expect(left()).toBe(15);
    expect(deleteSpent(sql, next!, 10)).toBeUndefined();
    expect(left()).toBe(10);
    expect(expireResults(sql, 9 * day + 1, 10)).toBe(5);
  });

  test("are found by an index, so that a sweep reads no other rows", () => {
    const sql = open();
    const plans: string[] = [];
    const watching = {
      ...sql,
      run: (text: string, ...params: Parameters<typeof sql.run> extends [string, ...infer P] ? P : never) => {
        plans.push(...sql.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${text}`, ...params).map(({ detail }) => detail));
        return sql.run(text, ...params);
      },
      all: <T>(text: string, ...params: Parameters<typeof sql.run> extends [string, ...infer P] ? P : never) => {
        plans.push(...sql.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${text}`, ...params).map(({ detail }) => detail));
        return sql.all<T>(text, ...params);
      },
    };
    expireResults(watching, 1, 10);
    deleteSpent(watching, 0, 10);
    expect(plans.length).toBeGreaterThan(2);
    for (const plan of plans) expect(plan).not.toMatch(/SCAN requests$/);
    for (const index of ["requests_made", "requests_fetched", "requests_spent"]) {
      expect(
        plans.some((plan) => plan.includes(index)),
        index,
      ).toBe(true);
    }
  });
});
