/** Handlers that list, search, label and finish sessions. */
import type { SessionSearchRequest, SessionStatus } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { checkpointTotals } from "../../store/tables/models.ts";
import {
  finishSession,
  listSessionIds,
  type SessionRow,
  sessionMembers,
  sessionsBefore,
  setProject,
} from "../../store/tables/sessions.ts";
import { ownSession } from "../access/access.ts";
import type { Api, Handlers } from "../api.ts";
import { page, textValues } from "../views.ts";
import { checkText } from "./fields.ts";

type SessionOperation =
  | "listSessions"
  | "getSession"
  | "assignSessionProject"
  | "exportSessionTrace"
  | "finishSession"
  | "searchSessions";

/** Sessions that one search reads. */
const searchedSessions = 1000;
/** Sessions in one response. */
const shownSessions = 200;

export function sessionHandlers(api: Api): Pick<Handlers, SessionOperation> {
  const { sql } = api.store.db;

  const statusOf = (row: SessionRow): SessionStatus | undefined => {
    const type = row.finish_reason as "success" | "errored" | "interrupted" | null;
    if (type !== null) return { type: "client_finished", reason: { type } };
    const isActive = api.sessionActivity.lastSeen(row.id) > api.clock.now() - api.limits.staleSessionMs;
    return isActive ? { type: "active" } : undefined;
  };

  return {
    listSessions: ({ query }, call) => {
      const { limit, offset } = page(query);
      return { sessions: listSessionIds(sql, call.caller.tenant, limit, offset) };
    },
    getSession: ({ params }, call) => {
      const row = ownSession(api, call, params.sessionId);
      const userMetadata = textValues(row.user_metadata);
      return {
        trainingRunIds: sessionMembers(sql, "models", row.id),
        samplerIds: sessionMembers(sql, "samplers", row.id),
        ...omitUndefined({ userMetadata }),
        ...(row.display_name === null ? {} : { displayName: row.display_name }),
      };
    },
    assignSessionProject: async ({ params, body }, call) => {
      const row = ownSession(api, call, params.sessionId);
      checkText("project_id", body.projectId);
      await api.store.db.write((tx) => setProject(tx, row.id, body.projectId));
      return undefined;
    },
    exportSessionTrace: ({ params }, call) => {
      const row = ownSession(api, call, params.sessionId);
      return { status: "ready", url: api.links.make(call.url.origin, `/download/trace/${row.id}`).url };
    },

    finishSession: async ({ params, body }, call) => {
      const session = ownSession(api, call, params.sessionId);
      await api.store.db.write((tx) => finishSession(tx, session.id, body.reason.type, api.clock.now()));
      api.queue.cancelSamples(session.id);
      return undefined;
    },

    searchSessions: ({ body }, call) => {
      const { cursor } = body;
      const before = {
        createdAt: cursor?.lastCreatedAt.getTime() ?? Number.MAX_SAFE_INTEGER,
        id: cursor?.lastSessionId ?? "",
      };
      const found = sessionsBefore(sql, call.caller.tenant, before, searchedSessions + 1);
      const matches = matcher(body);
      const shown: SessionRow[] = [];
      // one call reads a bounded number of sessions, so a page may have fewer matches than `limit` and still be followed by another
      let last: SessionRow | undefined;
      for (const row of found.slice(0, searchedSessions)) {
        if (shown.length >= Math.min(body.limit, shownSessions)) break;
        last = row;
        if (matches(row, statusOf(row))) shown.push(row);
      }
      const isEnd = last === undefined || last === found.at(-1);
      return {
        sessions: shown.map((row) => {
          const kept = checkpointTotals(sql, row.id);
          const status = statusOf(row);
          const userMetadata = textValues(row.user_metadata);
          return {
            sessionId: row.id,
            createdAt: new Date(row.created_at),
            owner: row.tenant,
            projectId: row.project_id ?? "",
            ...omitUndefined({ status }),
            checkpointsCount: kept.count,
            checkpointStorageBytes: kept.bytes,
            ...(row.display_name === null ? {} : { displayName: row.display_name }),
            ...omitUndefined({ userMetadata }),
          };
        }),
        ...(last === undefined || isEnd
          ? {}
          : { nextCursor: { lastCreatedAt: new Date(last.created_at), lastSessionId: last.id } }),
      };
    },
  };
}

/** The predicate of a search. */
function matcher(search: SessionSearchRequest): (row: SessionRow, status: SessionStatus | undefined) => boolean {
  const words = search.displayName?.toLowerCase().slice(0, 1000).split(/\s+/);
  const wanted = Object.entries(search.userMetadata);
  return (row, status) => {
    const isNamed = words?.every((word) => (row.display_name ?? "").toLowerCase().includes(word)) ?? false;
    const isFound =
      search.sessionId !== undefined || words !== undefined ? row.id === search.sessionId || isNamed : true;
    const hasStatus =
      search.statuses?.some(
        (asked) =>
          asked.type === status?.type &&
          (asked.type !== "client_finished" ||
            asked.reasons === undefined ||
            (status?.type === "client_finished" && asked.reasons.includes(status.reason.type))),
      ) ?? true;
    if (!isFound || !hasStatus) return false;
    const metadata = textValues(row.user_metadata) ?? {};
    return (
      wanted.every(([key, value]) => metadata[key] === value) &&
      (search.projectIds?.includes(row.project_id ?? "") ?? true)
    );
  };
}
