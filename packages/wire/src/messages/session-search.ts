/** Messages about how sessions end and how they are found again. Newer than 0.25. */
import { date } from "../schema/dates.ts";
import { int, list, literal, map, nullable, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import { message, unionOf } from "../schema/message.ts";

/** How a client says that its session ended. */
export type ClientSessionFinishReasonType = "success" | "errored" | "interrupted";

/** The program came to its end. */
export interface ClientSessionFinishSuccess {
  readonly type: "success";
}
export const ClientSessionFinishSuccess = message<ClientSessionFinishSuccess, "type">("ClientSessionFinishSuccess", {
  type: literal("success"),
});
/** The program ended by an error. */
export interface ClientSessionFinishErrored {
  readonly type: "errored";
}
export const ClientSessionFinishErrored = message<ClientSessionFinishErrored, "type">("ClientSessionFinishErrored", {
  type: literal("errored"),
});
/** Somebody stopped the program. */
export interface ClientSessionFinishInterrupted {
  readonly type: "interrupted";
}
export const ClientSessionFinishInterrupted = message<ClientSessionFinishInterrupted, "type">(
  "ClientSessionFinishInterrupted",
  { type: literal("interrupted") },
);
/** Why a session ended, told apart by `type`. */
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
  /** Said explicitly, null when there is nothing to say. */
  readonly detail: string | null;
}
export const FinishSessionRequest = message<FinishSessionRequest, "detail">("FinishSessionRequest", {
  reason: finishReason,
  detail: withDefault(nullable(string()), null),
});

/** The session's client is there. */
export interface SessionActive {
  readonly type: "active";
}
export const SessionActive = message<SessionActive, "type">("SessionActive", { type: literal("active") });
/** The session was ended from outside. */
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
/** What failed, told apart by `type`. */
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
/** How a session stands, told apart by `type`. */
export type SessionStatus = SessionFailed | SessionCancelled | ClientSessionFinished | SessionActive;

/** One's own sessions. */
export interface OwnSearchOwner {
  readonly type: "own";
}
export const OwnSearchOwner = message<OwnSearchOwner, "type">("OwnSearchOwner", { type: literal("own") });
/** Every session that one may see. */
export interface AccessibleSearchOwner {
  readonly type: "accessible";
}
export const AccessibleSearchOwner = message<AccessibleSearchOwner, "type">("AccessibleSearchOwner", {
  type: literal("accessible"),
});
/** The sessions of certain people. */
export interface UserSearchOwner {
  readonly type: "user";
  readonly ownerUrns: readonly string[];
}
export const UserSearchOwner = message<UserSearchOwner, "type">(
  "UserSearchOwner",
  { type: literal("user"), ownerUrns: list(string()) },
  {
    check: ({ ownerUrns }, fail) => {
      if (ownerUrns.length === 0) fail("ownerUrns", "must name at least one person");
    },
  },
);
/** Whose sessions are searched, told apart by `type`. */
export type SearchOwner = OwnSearchOwner | AccessibleSearchOwner | UserSearchOwner;

/** Sessions whose client is there. */
export interface ActiveSessionStatusQuery {
  readonly type: "active";
}
export const ActiveSessionStatusQuery = message<ActiveSessionStatusQuery, "type">("ActiveSessionStatusQuery", {
  type: literal("active"),
});
/** Sessions that were ended from outside. */
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
/** Sessions that their client ended. */
export interface ClientFinishedSessionStatusQuery {
  readonly type: "client_finished";
  /** Absent: for any reason. */
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
/** Which sessions are meant by how they stand. */
export type SessionStatusQuery =
  | ActiveSessionStatusQuery
  | CancelledSessionStatusQuery
  | FailedSessionStatusQuery
  | ClientFinishedSessionStatusQuery;

/** Where a search goes on. */
export interface SessionSearchCursor {
  readonly lastCreatedAt: Date;
  readonly lastSessionId: string;
}
export const SessionSearchCursor = message<SessionSearchCursor>("SessionSearchCursor", {
  lastCreatedAt: date(),
  lastSessionId: string(),
});

/** What sessions are looked for by; what is not given does not restrict. */
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

/** A session that was found. */
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

/** A page of sessions that were found. */
export interface SessionSearchResponse {
  readonly sessions: readonly SessionSummary[];
  readonly nextCursor?: SessionSearchCursor;
}
export const SessionSearchResponse = message<SessionSearchResponse>("SessionSearchResponse", {
  sessions: list(SessionSummary.field),
  nextCursor: optional(SessionSearchCursor.field),
});
