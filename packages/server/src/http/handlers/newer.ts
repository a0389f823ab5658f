/** Handlers of the routes beside the contract table: what clients newer than 0.25 call, and what is ours. */
import { checkName } from "../../queue/checkpoint-jobs.ts";
import { Refusal } from "../../queue/refusal.ts";
import { archiveFiles } from "../../store/adapter-files.ts";
import { type SessionRow, sessionsBefore } from "../../store/sessions.ts";
import { ownSampler, ownSession, readableCheckpoint, unknownRequest } from "../access.ts";
import { jsonAnswer } from "../answers.ts";
import type { Api } from "../api.ts";
import type { NewerHandler, NewerHandlers } from "../newer-routes.ts";
import { textValues } from "../views.ts";
import { field, textField } from "./fields.ts";
import { copyWeights, importAdapter } from "./foreign-weights.ts";
import { peekJson, submitJson } from "./training.ts";

/** Sessions that one search looks at. */
const searchedSessions = 1000;

const keyData = (tenant: string) => ({
  key_id: 0,
  name: tenant,
  note: "",
  details: { org_details: { name: "tinklet" }, user_details: { email: "" } },
});

export function newerHandlers(api: Api): NewerHandlers {
  const { sql } = api.store.db;
  const finishSession: NewerHandler = async (call, match) => {
    const session = ownSession(api, call, match[1]!);
    const reason = field(call, "reason");
    const type =
      typeof reason === "object" && reason !== null ? (reason as Record<string, unknown>)["type"] : undefined;
    if (type !== "success" && type !== "errored" && type !== "interrupted") {
      throw new Refusal(422, "invalid_request", "reason.type: must be success, errored or interrupted");
    }
    // the first reason wins
    await api.store.db.write((tx) =>
      tx.run(
        "UPDATE sessions SET finished_at = ?, finish_reason = ? WHERE id = ? AND finished_at IS NULL",
        api.clock.now(),
        type,
        session.id,
      ),
    );
    api.queue.cancelSamples(session.id);
    return jsonAnswer({});
  };

  const cancelFuture: NewerHandler = (call) => {
    const requestId = textField(call, "request_id");
    if (!api.queue.cancel(requestId, call.caller.tenant)) throw unknownRequest(requestId);
    return jsonAnswer({});
  };

  const sampleTokens: NewerHandler = async (call, match) => {
    const requestId = match[1]!;
    const after = Number(call.url.searchParams.get("after") ?? 0);
    if (!(Number.isSafeInteger(after) && after >= 0))
      throw new Refusal(422, "invalid_request", "after: must be a count");
    const found = await api.queue.tokens(requestId, call.caller.tenant, after, call.request.signal);
    if (found === undefined) throw unknownRequest(requestId);
    return jsonAnswer(found);
  };

  const joinSamplingSession: NewerHandler = async (call) => {
    const sampler = ownSampler(api, call, textField(call, "sampling_session_id"));
    const counter = await api.store.db.write((tx) => {
      tx.run("UPDATE samplers SET clients = clients + 1 WHERE id = ?", sampler.id);
      return tx.get<{ clients: number }>("SELECT clients FROM samplers WHERE id = ?", sampler.id)!.clients;
    });
    return jsonAnswer({ type: "join_sampling_session", client_counter: counter });
  };

  const saveWeightsExternal: NewerHandler = async (call) => {
    const at = peekJson(call.wire);
    checkName(textField(call, "path"));
    if (field(call, "age_encryption_recipients") != null) {
      throw new Refusal(
        400,
        "no_encryption",
        "age_encryption_recipients: this server does not encrypt what it exports.",
      );
    }
    const { requestId } = await submitJson(api, call, "save_weights_external", {
      modelId: textField(call, "model_id"),
      seqId: at?.seqId,
    });
    return jsonAnswer({ request_id: requestId });
  };

  const getExternalWeightsUrls: NewerHandler = (call, match) => {
    const row = readableCheckpoint(api, call, match[1]!, `external_weights/${match[2]!}`);
    const links = archiveFiles.map((file) => ({
      file,
      ...api.links.make(call.url.origin, `/download/file/${row.run_id}/${row.kind}/${row.name}/${file}`),
    }));
    return jsonAnswer({
      urls: Object.fromEntries(links.map(({ file, url }) => [file, url])),
      expires: links[0]!.expires.toISOString(),
    });
  };

  const searchSessions: NewerHandler = (call) => {
    const asked = Number(field(call, "limit") ?? 50);
    const limit = Number.isInteger(asked) ? Math.min(Math.max(asked, 1), 200) : 50;
    const cursor = field(call, "cursor") as { last_created_at?: string; last_session_id?: string } | null | undefined;
    const before = cursor?.last_created_at === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(cursor.last_created_at);
    if (Number.isNaN(before)) throw new Refusal(422, "invalid_request", "cursor.last_created_at: must be a time");
    const wanted: unknown = field(call, "user_metadata") ?? {};
    if (typeof wanted !== "object" || wanted === null)
      throw new Refusal(422, "invalid_request", "user_metadata: must be an object");
    const name = field(call, "display_name");
    const id = field(call, "session_id");
    const projects = field(call, "project_ids") as string[] | null | undefined;
    const words = typeof name === "string" ? name.toLowerCase().slice(0, 1000).split(/\s+/) : undefined;
    const matches = (row: SessionRow): boolean => {
      const named = words?.every((word) => (row.display_name ?? "").toLowerCase().includes(word)) ?? false;
      const meant = typeof id === "string" || words !== undefined ? row.id === id || named : true;
      const notes = textValues(row.user_metadata) ?? {};
      return (
        meant &&
        Object.entries(wanted).every(([key, value]) => notes[key] === value) &&
        (!Array.isArray(projects) || projects.includes(row.project_id ?? ""))
      );
    };
    const shown: SessionRow[] = [];
    const after = { createdAt: before, id: cursor?.last_session_id ?? "" };
    const page = sessionsBefore(sql, call.caller.tenant, after, searchedSessions + 1);
    // a page that holds too few is followed by the next: no call looks at more than so many sessions
    const looked = page.slice(0, searchedSessions);
    let last: SessionRow | undefined;
    for (const row of looked) {
      if (shown.length === limit) break;
      last = row;
      if (matches(row)) shown.push(row);
    }
    const isEnd = last === undefined || last === page.at(-1);
    return jsonAnswer({
      sessions: shown.map((row) => {
        const kept = sql.get<{ n: number; bytes: number }>(
          "SELECT COUNT(*) AS n, COALESCE(SUM(bytes), 0) AS bytes FROM checkpoints WHERE session_id = ?",
          row.id,
        )!;
        const active = api.presence.lastSeen(row.id) > api.clock.now() - api.limits.staleSessionMs;
        const status =
          row.finish_reason !== null
            ? { type: "client_finished", reason: { type: row.finish_reason } }
            : active
              ? { type: "active" }
              : null;
        return {
          session_id: row.id,
          created_at: new Date(row.created_at).toISOString(),
          owner: row.tenant,
          project_id: row.project_id ?? "",
          status,
          checkpoints_count: kept.n,
          checkpoint_storage_bytes: kept.bytes,
          display_name: row.display_name,
          user_metadata: textValues(row.user_metadata),
        };
      }),
      next_cursor:
        last === undefined || isEnd
          ? null
          : { last_created_at: new Date(last.created_at).toISOString(), last_session_id: last.id },
    });
  };

  const getCurrentCheckpointStorageUsage: NewerHandler = (call) => {
    const project = call.url.searchParams.get("project_id");
    const rows = sql.all<{ project: string | null; n: number; bytes: number }>(
      `SELECT sessions.project_id AS project, COUNT(*) AS n, SUM(bytes) AS bytes FROM checkpoints
       JOIN sessions ON sessions.id = checkpoints.session_id WHERE checkpoints.tenant = ? GROUP BY sessions.project_id`,
      call.caller.tenant,
    );
    return jsonAnswer({
      data: rows
        .filter((row) => project === null || row.project === project)
        .map((row) => ({
          project_id: row.project,
          org_user_urn: `tml:user:${call.caller.tenant}`,
          user_name: call.caller.tenant,
          checkpoint_count: row.n,
          size_bytes: row.bytes,
          size_gigabytes: row.bytes / 1e9,
        })),
    });
  };

  return {
    finishSession,
    searchSessions,
    joinSamplingSession,
    cancelFuture,
    sampleTokens,
    copyWeights: (call) => copyWeights(api, call),
    saveWeightsExternal,
    getExternalWeightsUrls,
    getCurrentCheckpointStorageUsage,
    apiKeyMe: ({ caller }) => jsonAnswer(keyData(caller.tenant)),
    importAdapter: (call) => importAdapter(api, call),
  };
}
