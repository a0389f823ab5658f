/** Searches for sessions, and how they end: what is sent, what is filled in, and what cannot be meant. */
import { describe, expect, it } from "vitest";
import { refusal } from "../../../sdk/src/testing/refusal.ts";
import {
  ClientFinishedSessionStatusQuery,
  FinishSessionRequest,
  SessionSearchRequest,
  SessionSearchResponse,
} from "./session-search.ts";

describe("a search", () => {
  it("without filters is for the caller's sessions, 50 at a time", () => {
    expect(SessionSearchRequest.encode({})).toEqual({ user_metadata: {}, owner: { type: "own" }, limit: 50 });
  });

  it("says what it is by, in the wire's names; the keys of metadata are data", () => {
    const lastCreatedAt = new Date("2026-07-01T12:00:00Z");
    const encoded = SessionSearchRequest.encode({
      sessionId: "s",
      projectIds: ["p"],
      userMetadata: { runName: "a" },
      displayName: "d",
      owner: { type: "user", ownerUrns: ["urn:1"] },
      statuses: [{ type: "active" }, { type: "client_finished", reasons: ["errored"] }, { type: "client_finished" }],
      limit: 1,
      cursor: { lastCreatedAt, lastSessionId: "z" },
    });
    expect(encoded).toMatchObject({
      session_id: "s",
      project_ids: ["p"],
      user_metadata: { runName: "a" },
      display_name: "d",
      owner: { type: "user", owner_urns: ["urn:1"] },
      statuses: [{ type: "active" }, { type: "client_finished", reasons: ["errored"] }, { type: "client_finished" }],
      limit: 1,
      cursor: { last_session_id: "z" },
    });
    expect(SessionSearchRequest.decode(JSON.parse(JSON.stringify(encoded))).cursor).toEqual({
      lastCreatedAt,
      lastSessionId: "z",
    });
  });

  it.each([
    [{ owner: { type: "user", ownerUrns: [] } }, "ownerUrns", "must name at least one user"],
    [{ statuses: [] }, "statuses", "must name at least one; leave it out for any"],
    [
      { statuses: [{ type: "client_finished", reasons: [] }] },
      "reasons",
      "must name at least one; leave it out for any",
    ],
    [{ limit: 0 }, "limit", "must be at least 1, not 0"],
    [{ limit: 1.5 }, "limit", ""],
    [{ owner: { type: "unknown" } }, "type", ""],
    [{ statuses: [{ type: "asleep" }] }, "type", ""],
  ])("%j cannot be meant", (search, field, message) => {
    const error = refusal(() => SessionSearchRequest.encode(search as never));
    expect(error.field).toContain(field);
    expect(error.message).toContain(message);
  });

  it("by status accepts any reason, or some", () => {
    expect(ClientFinishedSessionStatusQuery.encode({})).toEqual({ type: "client_finished" });
    expect(refusal(() => ClientFinishedSessionStatusQuery.encode({ reasons: ["bored"] as never })).field).toContain(
      "reasons",
    );
  });

  it("finds sessions of every state", () => {
    const created_at = "2026-07-01T12:00:00Z";
    const summary = { session_id: "s", created_at, owner: "o", project_id: "p", checkpoints_count: 2 };
    const statuses = [
      { type: "active" },
      { type: "cancelled", detail: "from outside" },
      { type: "client_finished", reason: { type: "interrupted" } },
      { type: "failed", category: "user", message: "m", reason: { type: "training_run", training_run_id: "r" } },
    ];
    const { sessions } = SessionSearchResponse.decode({
      sessions: [summary, ...statuses.map((status) => ({ ...summary, status }))],
    });
    expect(sessions.map(({ status }) => status?.type)).toEqual([
      undefined,
      "active",
      "cancelled",
      "client_finished",
      "failed",
    ]);
    expect(sessions[4]?.status).toMatchObject({ reason: { type: "training_run", trainingRunId: "r" } });
    expect(sessions[0]).toMatchObject({ createdAt: new Date(created_at), checkpointsCount: 2 });
  });
});

describe("the end of a session", () => {
  it("sends an explicit null without a detail", () => {
    expect(FinishSessionRequest.encode({ reason: { type: "success" } })).toEqual({
      reason: { type: "success" },
      detail: null,
    });
    expect(FinishSessionRequest.encode({ reason: { type: "errored" }, detail: "oops" })).toEqual({
      reason: { type: "errored" },
      detail: "oops",
    });
  });
});
