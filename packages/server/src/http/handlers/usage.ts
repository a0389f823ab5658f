/** Handlers of billing usage, the audit log, storage, and the owner of a key. */
import type { BillingUsageEvent } from "@tinklet/wire";
import { Refusal } from "../../queue/refusal.ts";
import { projectStorage, tenantCheckpoints } from "../../store/tables/models.ts";
import { getSession } from "../../store/tables/sessions.ts";
import { auditBetween, type UsageRow, usageBetween } from "../../store/tables/usage.ts";
import { jsonAnswer } from "../answers.ts";
import type { Api, Handlers } from "../api.ts";
import { storageUse } from "../runs/storage-use.ts";
import { textValues } from "../views.ts";

type UsageOperation = "getBillingUsage" | "getAuditLog" | "getCurrentCheckpointStorageUsage" | "apiKeyMe";

const hourMs = 3_600_000;

export function usageHandlers(api: Api): Pick<Handlers, UsageOperation> {
  const { sql } = api.store.db;
  return {
    getBillingUsage: ({ query }, call) => {
      const [from, to] = [timeOf(query.startingOn), timeOf(query.endingBefore)];
      const rows = usageBetween(sql, call.caller.tenant, Math.floor(from / hourMs), Math.ceil(to / hourMs));
      const kept = tenantCheckpoints(sql, call.caller.tenant);
      const storage = storageUse(kept, from, Math.min(to, api.clock.now()));
      const data = [...rows.map((row) => usageEvent(row, call.caller.tenant)), ...storage];
      const sessions: Record<string, { userMetadata?: Record<string, string> }> = {};
      for (const id of new Set(data.map(({ sessionId }) => sessionId))) {
        const row = id === undefined ? undefined : getSession(sql, id);
        const userMetadata = row && textValues(row.user_metadata);
        if (id !== undefined && userMetadata !== undefined && Object.keys(userMetadata).length > 0)
          sessions[id] = { userMetadata };
      }
      return { data, sessions };
    },
    getAuditLog: ({ query }, call) => {
      const day = query.day === undefined ? undefined : Date.parse(`${query.day}T00:00:00Z`);
      if (day !== undefined && !(day > 0))
        throw new Refusal(422, "invalid_request", "day: must be a date such as 2026-07-13");
      const until = day === undefined ? Number.MAX_SAFE_INTEGER : day + 24 * hourMs;
      const rows = auditBetween(sql, call.caller.tenant, { from: day ?? 0, until, all: query.eventType === "all" });
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

    getCurrentCheckpointStorageUsage: ({ query }, { caller }) => ({
      data: projectStorage(sql, caller.tenant)
        .filter(({ project }) => query.projectId === undefined || project === query.projectId)
        .map(({ project, count, bytes }) => ({
          ...(project === null ? {} : { projectId: project }),
          orgUserUrn: `tml:user:${caller.tenant}`,
          userName: caller.tenant,
          checkpointCount: count,
          sizeBytes: bytes,
          sizeGigabytes: bytes / 1e9,
        })),
    }),

    apiKeyMe: (_received, { caller }) =>
      jsonAnswer({
        key_id: 0,
        name: caller.tenant,
        note: "",
        details: { org_details: { name: "tinklet" }, user_details: { email: "" } },
      }),
  };
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
