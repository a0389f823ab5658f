/** Messages about the end of sessions and the search for sessions. Newer than 0.25. */
import { date } from "../schema/dates.ts";
import { int, list, literal, map, nullable, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import { message, unionOf } from "../schema/message.ts";

/** The reason that a client gives for the end of its session. */
export type ClientSessionFinishReasonType = "success" | "errored" | "interrupted";

/** The program completed. */
export interface ClientSessionFinishSuccess {
  readonly type: "success";
}
export const ClientSessionFinishSuccess = message<ClientSessionFinishSuccess, "type">("ClientSessionFinishSuccess", {
  type: literal("success"),
});
/** The program ended with an error. */
export interface ClientSessionFinishErrored {
  readonly type: "errored";
}
export const ClientSessionFinishErrored = message<ClientSessionFinishErrored, "type">("ClientSessionFinishErrored", {
  type: literal("errored"),
});
/** The program was interrupted. */
export interface ClientSessionFinishInterrupted {
  readonly type: "interrupted";
}
export const ClientSessionFinishInterrupted = message<ClientSessionFinishInterrupted, "type">(
  "ClientSessionFinishInterrupted",
  { type: literal("interrupted") },
);
/** Why a session ended, discriminated by `type`. */
export type ClientSessionFinishReason =
  | ClientSessionFinishSuccess
  | ClientSessionFinishErrored
  | ClientSessionFinishInterrupted;
const finishReason = unionOf<ClientSessionFinishReason>("type", [
  ClientSessionFinishSuccess,
  ClientSessionFinishErrored,
  ClientSessionFinishInterrupted,
]);

/** Ends a session. */
export interface FinishSessionRequest {
  readonly reason: ClientSessionFinishReason;
  /** Always present on the wire; null when there is no detail. */
  readonly detail: string | null;
}
export const FinishSessionRequest = message<FinishSessionRequest, "detail">("FinishSessionRequest", {
  reason: finishReason,
  detail: withDefault(nullable(string()), null),
});

/** The session's client is connected. */
export interface SessionActive {
  readonly type: "active";
}
export const SessionActive = message<SessionActive, "type">("SessionActive", { type: literal("active") });
/** The session was cancelled on the server. */
export interface SessionCancelled {
  readonly type: "cancelled";
  readonly detail?: string;
}
export const SessionCancelled = message<SessionCancelled, "type">("SessionCancelled", {
  type: literal("cancelled"),
  detail: optional(string()),
});
/** The client ended the session. */
export interface ClientSessionFinished {
  readonly type: "client_finished";
  readonly reason: ClientSessionFinishReason;
  readonly detail?: string;
}
export const ClientSessionFinished = message<ClientSessionFinished, "type">("ClientSessionFinished", {
  type: literal("client_finished"),
  reason: finishReason,
  detail: optional(string()),
});

/** A request failed. */
export interface SessionFailedRequestReason {
  readonly type: "request";
  readonly requestId: string;
  readonly requestType: string;
}
export const SessionFailedRequestReason = message<SessionFailedRequestReason, "type">("SessionFailedRequestReason", {
  type: literal("request"),
  requestId: string(),
  requestType: string(),
});
/** A training run failed. */
export interface SessionFailedTrainingRunReason {
  readonly type: "training_run";
  readonly trainingRunId: string;
}
export const SessionFailedTrainingRunReason = message<SessionFailedTrainingRunReason, "type">(
  "SessionFailedTrainingRunReason",
  { type: literal("training_run"), trainingRunId: string() },
);
/** A sampling session failed. */
export interface SessionFailedSamplingSessionReason {
  readonly type: "sampling_session";
  readonly samplingSessionId: string;
}
export const SessionFailedSamplingSessionReason = message<SessionFailedSamplingSessionReason, "type">(
  "SessionFailedSamplingSessionReason",
  { type: literal("sampling_session"), samplingSessionId: string() },
);
/** What failed, discriminated by `type`. */
export type SessionFailedReason =
  | SessionFailedRequestReason
  | SessionFailedTrainingRunReason
  | SessionFailedSamplingSessionReason;

/** The session failed. */
export interface SessionFailed {
  readonly type: "failed";
  readonly category: "user" | "internal";
  readonly reason: SessionFailedReason;
  readonly message: string;
}
export const SessionFailed = message<SessionFailed, "type">("SessionFailed", {
  type: literal("failed"),
  category: oneOf("user", "internal"),
  reason: unionOf<SessionFailedReason>("type", [
    SessionFailedRequestReason,
    SessionFailedTrainingRunReason,
    SessionFailedSamplingSessionReason,
  ]),
  message: string(),
});
/** The status of a session, discriminated by `type`. */
export type SessionStatus = SessionFailed | SessionCancelled | ClientSessionFinished | SessionActive;

/** The caller's sessions. */
export interface OwnSearchOwner {
  readonly type: "own";
}
export const OwnSearchOwner = message<OwnSearchOwner, "type">("OwnSearchOwner", { type: literal("own") });
/** Every session that the caller may see. */
export interface AccessibleSearchOwner {
  readonly type: "accessible";
}
export const AccessibleSearchOwner = message<AccessibleSearchOwner, "type">("AccessibleSearchOwner", {
  type: literal("accessible"),
});
/** The sessions of certain users. */
export interface UserSearchOwner {
  readonly type: "user";
  readonly ownerUrns: readonly string[];
}
export const UserSearchOwner = message<UserSearchOwner, "type">(
  "UserSearchOwner",
  { type: literal("user"), ownerUrns: list(string()) },
  {
    check: ({ ownerUrns }, fail) => {
      if (ownerUrns.length === 0) fail("ownerUrns", "must name at least one user");
    },
  },
);
/** Whose sessions are searched, discriminated by `type`. */
export type SearchOwner = OwnSearchOwner | AccessibleSearchOwner | UserSearchOwner;

/** Sessions whose client is connected. */
export interface ActiveSessionStatusQuery {
  readonly type: "active";
}
export const ActiveSessionStatusQuery = message<ActiveSessionStatusQuery, "type">("ActiveSessionStatusQuery", {
  type: literal("active"),
});
/** Sessions that were cancelled on the server. */
export interface CancelledSessionStatusQuery {
  readonly type: "cancelled";
}
export const CancelledSessionStatusQuery = message<CancelledSessionStatusQuery, "type">("CancelledSessionStatusQuery", {
  type: literal("cancelled"),
});
/** Sessions that failed. */
export interface FailedSessionStatusQuery {
  readonly type: "failed";
}
export const FailedSessionStatusQuery = message<FailedSessionStatusQuery, "type">("FailedSessionStatusQuery", {
  type: literal("failed"),
});
/** Sessions that their client has ended. */
export interface ClientFinishedSessionStatusQuery {
  readonly type: "client_finished";
  /** Absent: any reason. */
  readonly reasons?: readonly ClientSessionFinishReasonType[];
}
export const ClientFinishedSessionStatusQuery = message<ClientFinishedSessionStatusQuery, "type">(
  "ClientFinishedSessionStatusQuery",
  { type: literal("client_finished"), reasons: optional(list(oneOf("success", "errored", "interrupted"))) },
  {
    check: ({ reasons }, fail) => {
      if (reasons?.length === 0) fail("reasons", "must name at least one; leave it out for any");
    },
  },
);
/** Selects sessions by their status. */
export type SessionStatusQuery =
  | ActiveSessionStatusQuery
  | CancelledSessionStatusQuery
  | FailedSessionStatusQuery
  | ClientFinishedSessionStatusQuery;

/** Where a search continues. */
export interface SessionSearchCursor {
  readonly lastCreatedAt: Date;
  readonly lastSessionId: string;
}
export const SessionSearchCursor = message<SessionSearchCursor>("SessionSearchCursor", {
  lastCreatedAt: date(),
  lastSessionId: string(),
});

/** Filters of a session search; an absent filter does not restrict the result. */
export interface SessionSearchRequest {
  readonly sessionId?: string;
  readonly projectIds?: readonly string[];
  readonly userMetadata: Readonly<Record<string, string>>;
  readonly displayName?: string;
  /** @defaultValue `{ type: "own" }` */
  readonly owner: SearchOwner;
  readonly statuses?: readonly SessionStatusQuery[];
  /** @defaultValue 50 */
  readonly limit: number;
  readonly cursor?: SessionSearchCursor;
}
export const SessionSearchRequest = message<SessionSearchRequest, "userMetadata" | "owner" | "limit">(
  "SessionSearchRequest",
  {
    sessionId: optional(string()),
    projectIds: optional(list(string())),
    userMetadata: withDefault(map(string()), {}),
    displayName: optional(string()),
    owner: withDefault(unionOf<SearchOwner>("type", [OwnSearchOwner, AccessibleSearchOwner, UserSearchOwner]), {
      type: "own",
    }),
    statuses: optional(
      list(
        unionOf<SessionStatusQuery>("type", [
          ActiveSessionStatusQuery,
          CancelledSessionStatusQuery,
          FailedSessionStatusQuery,
          ClientFinishedSessionStatusQuery,
        ]),
      ),
    ),
    limit: withDefault(int(), 50),
    cursor: optional(SessionSearchCursor.field),
  },
  {
    check: ({ statuses, limit }, fail) => {
      if (statuses?.length === 0) fail("statuses", "must name at least one; leave it out for any");
      if (limit < 1) fail("limit", `must be at least 1, not ${limit}`);
    },
  },
);

/** A session in a search result. */
export interface SessionSummary {
  readonly sessionId: string;
  readonly createdAt: Date;
  readonly owner: string;
  readonly projectId: string;
  readonly status?: SessionStatus;
  readonly checkpointsCount: number;
  readonly displayName?: string;
  readonly userMetadata?: Readonly<Record<string, string>>;
  readonly checkpointStorageBytes?: number;
}
export const SessionSummary = message<SessionSummary>("SessionSummary", {
  sessionId: string(),
  createdAt: date(),
  owner: string(),
  projectId: string(),
  status: optional(
    unionOf<SessionStatus>("type", [SessionFailed, SessionCancelled, ClientSessionFinished, SessionActive]),
  ),
  checkpointsCount: int(),
  displayName: optional(string()),
  userMetadata: optional(map(string())),
  checkpointStorageBytes: optional(int()),
});

/** A page of search results. */
export interface SessionSearchResponse {
  readonly sessions: readonly SessionSummary[];
  readonly nextCursor?: SessionSearchCursor;
}
export const SessionSearchResponse = message<SessionSearchResponse>("SessionSearchResponse", {
  sessions: list(SessionSummary.field),
  nextCursor: optional(SessionSearchCursor.field),
});
