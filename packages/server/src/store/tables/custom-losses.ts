/**
 * Rows of `custom_losses`: losses that clients stored for their session. They are kept as long as their session, because the replay of a
 * pass after a restart needs its loss.
 */
import type { Sql } from "../database.ts";

export interface CustomLossRow {
  readonly id: string;
  readonly session_id: string;
  readonly tenant: string;
  /** JSON of inputs and graph, in wire format. */
  readonly body: string;
  /** Distinguishes a retry from another loss with the same number. */
  readonly fingerprint: string;
}

/** The size of a loss that counts against the limits. */
export const lossBytes = (body: string): number => Buffer.byteLength(body);

export function addCustomLoss(sql: Sql, row: CustomLossRow & { readonly now: number }): void {
  sql.run(
    "INSERT INTO custom_losses (id, session_id, tenant, body, bytes, fingerprint, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    row.id,
    row.session_id,
    row.tenant,
    row.body,
    lossBytes(row.body),
    row.fingerprint,
    row.now,
  );
}

export const getCustomLoss = (sql: Sql, id: string): CustomLossRow | undefined =>
  sql.get<CustomLossRow>("SELECT * FROM custom_losses WHERE id = ?", id);

/** Number and total size of the losses of a session or a tenant. */
export interface LossesStored {
  readonly count: number;
  readonly bytes: number;
}

export const lossesStored = (sql: Sql, of: "session_id" | "tenant", owner: string): LossesStored =>
  sql.get<LossesStored>(
    `SELECT COUNT(*) AS count, COALESCE(SUM(bytes), 0) AS bytes FROM custom_losses WHERE ${of} = ?`,
    owner,
  )!;
