/** Rows of `usage` (recorded usage per hour) and `audit` (creations and deletions of stored data). */
import type { Sql } from "../database.ts";

export type UsageKind = "training" | "sampling_prefill" | "sampling_prefill_cached" | "sampling_sample" | "checkpoint";

/** Amounts by kind: tokens, or number of checkpoints. */
export type Usage = Partial<Record<UsageKind, number>>;

/** Adds to the usage of the current hour, all kinds in one statement. */
export function addUsage(
  sql: Sql,
  account: { readonly tenant: string; readonly sessionId: string; readonly baseModel: string; readonly now: number },
  amounts: Usage,
): void {
  const used = Object.entries(amounts).filter(([, amount]) => amount !== 0);
  if (used.length === 0) return;
  const hour = Math.floor(account.now / 3_600_000);
  sql.run(
    `INSERT INTO usage (hour, tenant, session_id, base_model, kind, amount) VALUES ${used.map(() => "(?, ?, ?, ?, ?, ?)").join(", ")}
     ON CONFLICT DO UPDATE SET amount = amount + excluded.amount`,
    ...used.flatMap(([kind, amount]) => [hour, account.tenant, account.sessionId, account.baseModel, kind, amount]),
  );
}

/** Adds an audit entry, for `get_audit_log`. */
export function addAudit(
  sql: Sql,
  entry: {
    readonly at: number;
    readonly tenant: string;
    readonly event: string;
    readonly modelId?: string;
    readonly tinkerPath?: string;
    readonly purpose?: string;
  },
): void {
  sql.run(
    "INSERT INTO audit (at, tenant, event, model_id, tinker_path, purpose) VALUES (?, ?, ?, ?, ?, ?)",
    entry.at,
    entry.tenant,
    entry.event,
    entry.modelId ?? null,
    entry.tinkerPath ?? null,
    entry.purpose ?? null,
  );
}

export interface UsageRow {
  readonly hour: number;
  readonly session_id: string;
  readonly base_model: string;
  readonly kind: string;
  readonly amount: number;
  readonly project: string | null;
}

/** A tenant's usage in a range of hours since the epoch; `untilHour` is exclusive. */
export const usageBetween = (sql: Sql, tenant: string, fromHour: number, untilHour: number): UsageRow[] =>
  sql.all<UsageRow>(
    `SELECT usage.*, sessions.project_id AS project FROM usage LEFT JOIN sessions ON sessions.id = usage.session_id
     WHERE usage.tenant = ? AND hour >= ? AND hour < ? ORDER BY hour, session_id, kind`,
    tenant,
    fromHour,
    untilHour,
  );

export interface AuditRow {
  readonly at: number;
  readonly event: string;
  readonly model_id: string | null;
  readonly tinker_path: string | null;
  readonly purpose: string | null;
}

/** A tenant's audit entries in a time range, latest first; all, or only those of checkpoints. At most 10,000. */
export const auditBetween = (
  sql: Sql,
  tenant: string,
  which: { readonly from: number; readonly until: number; readonly all: boolean },
): AuditRow[] =>
  sql.all<AuditRow>(
    `SELECT * FROM audit WHERE tenant = ? AND at >= ? AND at < ? AND (? OR event LIKE 'checkpoint%')
     ORDER BY at DESC, id DESC LIMIT 10000`,
    tenant,
    which.from,
    which.until,
    which.all ? 1 : 0,
  );
