/** Handlers that list, describe and change what is kept: runs, checkpoints, sessions, use, audit. */
import type { BillingUsageEvent } from "tinklet/wire";
import { expiryOf, findReadable } from "../../queue/checkpoint-jobs.ts";
import { Refusal } from "../../queue/refusal.ts";
import { type CheckpointRow, type Lora, listModels, type ModelRow, tinkerPath } from "../../store/models.ts";
import { addAudit } from "../../store/requests.ts";
import { ownCheckpoint, ownModel, ownSession, readableCheckpoint } from "../access.ts";
import type { Api, Call, Handlers } from "../api.ts";
import { storageUse } from "../storage-use.ts";
import { checkpointView, liveCheckpoints, runView, textValues } from "../views.ts";
import { checkText } from "./fields.ts";

type RestOperation =
  | "listTrainingRuns"
  | "getTrainingRun"
  | "listCheckpoints"
  | "deleteCheckpoint"
  | "getCheckpointArchiveUrl"
  | "publishCheckpoint"
  | "unpublishCheckpoint"
  | "setCheckpointTtl"
  | "listUserCheckpoints"
  | "weightsInfo"
  | "listSessions"
  | "getSession"
  | "assignSessionProject"
  | "exportSessionTrace"
  | "getBillingUsage"
  | "getAuditLog";

const maxPage = 1000;
const hourMs = 3_600_000;

export function restHandlers(api: Api): Pick<Handlers, RestOperation> {
  const { sql } = api.store.db;
  const page = ({ limit, offset }: { limit: number; offset: number }) => ({
    limit: Math.min(Math.max(limit, 0), maxPage),
    offset: Math.max(offset, 0),
  });
  const mine = (call: Call) => (row: CheckpointRow) => row.tenant === call.caller.tenant;
  const mineOrPublic = (call: Call) => (row: CheckpointRow) => row.tenant === call.caller.tenant || row.public === 1;

  /** Changes a checkpoint of the caller's and notes it. */
  const change = async (
    call: Call,
    row: CheckpointRow,
    event: string,
    statement: string,
    ...values: (number | null)[]
  ) => {
    await api.store.db.write((tx) => {
      tx.run(`${statement} WHERE run_id = ? AND kind = ? AND name = ?`, ...values, row.run_id, row.kind, row.name);
      const path = tinkerPath(row);
      addAudit(tx, { at: api.clock.now(), tenant: call.caller.tenant, event, modelId: row.run_id, tinkerPath: path });
    });
    return undefined;
  };
  type At = { readonly params: { readonly trainingRunId: string; readonly checkpointId: string } };
  const publish =
    (isPublic: boolean) =>
    async ({ params }: At, call: Call) => {
      const row = ownCheckpoint(api, call, params.trainingRunId, params.checkpointId);
      // to publish what is public is a success: a 409 would be retried for minutes
      if ((row.public === 1) === isPublic) return undefined;
      const event = isPublic ? "checkpoint_published" : "checkpoint_unpublished";
      return change(call, row, event, "UPDATE checkpoints SET public = ?", isPublic ? 1 : 0);
    };

  return {
    listTrainingRuns: ({ query }, call) => {
      const { limit, offset } = page(query);
      const { rows, total } = listModels(sql, {
        tenant: call.caller.tenant,
        withPublic: query.accessScope === "accessible",
        projectId: query.projectId,
        limit,
        offset,
      });
      return {
        trainingRuns: rows.map((row) => runView(sql, row, api.clock.now(), mineOrPublic(call))),
        cursor: { offset, limit, totalCount: total },
      };
    },
    getTrainingRun: ({ params, query }, call) => {
      const now = api.clock.now();
      const row = sql.get<ModelRow>("SELECT * FROM models WHERE id = ?", params.trainingRunId);
      const shared =
        row !== undefined &&
        query.accessScope === "accessible" &&
        liveCheckpoints(sql, row.id, now).some((checkpoint) => checkpoint.public === 1);
      if (!shared) return runView(sql, ownModel(api, call, params.trainingRunId), now, mine(call));
      return runView(sql, row, now, mineOrPublic(call));
    },
    listCheckpoints: ({ params }, call) => {
      const all = liveCheckpoints(sql, params.trainingRunId, api.clock.now()).filter(mineOrPublic(call));
      if (all.length === 0) ownModel(api, call, params.trainingRunId); // empty and unknown are different answers
      return { checkpoints: all.map(checkpointView) };
    },
    listUserCheckpoints: ({ query }, call) => {
      const { limit, offset } = page(query);
      const now = api.clock.now();
      const where = "tenant = ? AND (expires_at IS NULL OR expires_at > ?)";
      const total = sql.get<{ n: number }>(
        `SELECT COUNT(*) AS n FROM checkpoints WHERE ${where}`,
        call.caller.tenant,
        now,
      )!.n;
      const rows = sql.all<CheckpointRow>(
        `SELECT * FROM checkpoints WHERE ${where} ORDER BY created_at DESC, run_id, kind, name LIMIT ? OFFSET ?`,
        call.caller.tenant,
        now,
        limit,
        offset,
      );
      return { checkpoints: rows.map(checkpointView), cursor: { offset, limit, totalCount: total } };
    },
    deleteCheckpoint: async ({ params }, call) => {
      const row = ownCheckpoint(api, call, params.trainingRunId, params.checkpointId);
      await change(call, row, "checkpoint_deleted", "DELETE FROM checkpoints");
      await api.store.collect();
      return undefined;
    },
    getCheckpointArchiveUrl: ({ params }, call) => {
      const row = readableCheckpoint(api, call, params.trainingRunId, params.checkpointId);
      return api.links.make(call.url.origin, `/download/archive/${row.run_id}/${row.kind}/${row.name}`);
    },
    publishCheckpoint: publish(true),
    unpublishCheckpoint: publish(false),
    setCheckpointTtl: ({ params, body }, call) => {
      const row = ownCheckpoint(api, call, params.trainingRunId, params.checkpointId);
      const until = expiryOf(body.ttlSeconds, api.clock.now());
      return change(call, row, "checkpoint_ttl_set", "UPDATE checkpoints SET expires_at = ?", until);
    },
    weightsInfo: ({ body }, call) => {
      let row: CheckpointRow;
      try {
        row = findReadable(sql, body.tinkerPath, [call.caller.tenant], api.clock.now());
      } catch (error) {
        throw new Refusal(404, "unknown_checkpoint", (error as Error).message);
      }
      const lora = JSON.parse(row.lora) as Lora;
      return {
        baseModel: row.base_model,
        isLora: true,
        loraRank: lora.rank,
        trainUnembed: lora.trainUnembed,
        trainMlp: lora.trainMlp,
        trainAttn: lora.trainAttn,
      };
    },

    listSessions: ({ query }, call) => {
      const { limit, offset } = page(query);
      const rows = sql.all<{ id: string }>(
        "SELECT id FROM sessions WHERE tenant = ? ORDER BY created_at DESC, id LIMIT ? OFFSET ?",
        call.caller.tenant,
        limit,
        offset,
      );
      return { sessions: rows.map(({ id }) => id) };
    },
    getSession: ({ params }, call) => {
      const row = ownSession(api, call, params.sessionId);
      const ids = (table: string) =>
        sql
          .all<{ id: string }>(`SELECT id FROM ${table} WHERE session_id = ? ORDER BY created_at, id`, row.id)
          .map(({ id }) => id);
      const notes = textValues(row.user_metadata);
      return {
        trainingRunIds: ids("models"),
        samplerIds: ids("samplers"),
        ...(notes === undefined ? {} : { userMetadata: notes }),
        ...(row.display_name === null ? {} : { displayName: row.display_name }),
      };
    },
    assignSessionProject: async ({ params, body }, call) => {
      const row = ownSession(api, call, params.sessionId);
      checkText("project_id", body.projectId);
      await api.store.db.write((tx) =>
        tx.run("UPDATE sessions SET project_id = ? WHERE id = ?", body.projectId, row.id),
      );
      return undefined;
    },
    exportSessionTrace: ({ params }, call) => {
      const row = ownSession(api, call, params.sessionId);
      return { status: "ready", url: api.links.make(call.url.origin, `/download/trace/${row.id}`).url };
    },

    getBillingUsage: ({ query }, call) => {
      const [from, to] = [timeOf(query.startingOn), timeOf(query.endingBefore)];
      const rows = sql.all<UsageRow>(
        `SELECT usage.*, sessions.project_id AS project FROM usage LEFT JOIN sessions ON sessions.id = usage.session_id
         WHERE usage.tenant = ? AND hour >= ? AND hour < ? ORDER BY hour, session_id, kind`,
        call.caller.tenant,
        Math.floor(from / hourMs),
        Math.ceil(to / hourMs),
      );
      const kept = sql.all<CheckpointRow>("SELECT * FROM checkpoints WHERE tenant = ?", call.caller.tenant);
      const storage = storageUse(kept, from, Math.min(to, api.clock.now()));
      const data = [...rows.map((row) => usageEvent(row, call.caller.tenant)), ...storage];
      const sessions: Record<string, { userMetadata?: Record<string, string> }> = {};
      for (const id of new Set(data.map(({ sessionId }) => sessionId))) {
        const row =
          id === undefined
            ? undefined
            : sql.get<{ user_metadata: string }>("SELECT user_metadata FROM sessions WHERE id = ?", id);
        const notes = row && textValues(row.user_metadata);
        if (id !== undefined && notes !== undefined && Object.keys(notes).length > 0)
          sessions[id] = { userMetadata: notes };
      }
      return { data, sessions };
    },
    getAuditLog: ({ query }, call) => {
      const day = query.day === undefined ? undefined : Date.parse(`${query.day}T00:00:00Z`);
      if (day !== undefined && !(day > 0))
        throw new Refusal(422, "invalid_request", "day: must be a date such as 2026-07-13");
      const rows = sql.all<AuditRow>(
        `SELECT * FROM audit WHERE tenant = ? AND at >= ? AND at < ? AND (? = 'all' OR event LIKE 'checkpoint%')
         ORDER BY at DESC, id DESC LIMIT 10000`,
        call.caller.tenant,
        day ?? 0,
        day === undefined ? Number.MAX_SAFE_INTEGER : day + 24 * hourMs,
        query.eventType,
      );
      return {
        entries: rows.map((row) => ({
          timestamp: new Date(row.at),
          event: row.event,
          ...(row.model_id === null ? {} : { modelId: row.model_id }),
          ...(row.tinker_path === null ? {} : { tinkerPath: row.tinker_path }),
          ...(row.purpose === null ? {} : { purpose: row.purpose }),
        })),
      };
    },
  };
}

interface AuditRow {
  readonly at: number;
  readonly event: string;
  readonly model_id: string | null;
  readonly tinker_path: string | null;
  readonly purpose: string | null;
}

interface UsageRow {
  readonly hour: number;
  readonly session_id: string;
  readonly base_model: string;
  readonly kind: string;
  readonly amount: number;
  readonly project: string | null;
}

function timeOf(value: Date | string): number {
  const time = typeof value === "string" ? Date.parse(value) : value.getTime();
  if (!Number.isFinite(time)) throw new Refusal(422, "invalid_request", "starting_on and ending_before must be times");
  return time;
}

function usageEvent(row: UsageRow, tenant: string): BillingUsageEvent {
  const tokenCount = row.amount;
  const eventInfo =
    row.kind === "training"
      ? ({ type: "training", tokenCount } as const)
      : row.kind === "sampling_sample"
        ? ({ type: "sampling_sample", tokenCount } as const)
        : row.kind === "checkpoint"
          ? ({ type: "checkpoint", count: row.amount } as const)
          : ({ type: "sampling_prefill", cached: row.kind === "sampling_prefill_cached", tokenCount } as const);
  return {
    bucketStart: new Date(row.hour * hourMs),
    bucketEnd: new Date((row.hour + 1) * hourMs),
    baseModel: row.base_model,
    userId: tenant,
    userName: tenant,
    ...(row.session_id === "" ? {} : { sessionId: row.session_id }),
    ...(row.project === null ? {} : { projectId: row.project }),
    eventInfo,
  };
}
