/**
 * Rows of `custom_losses`: losses that clients stored for their session. They stay as long as their session, because a logged
 * pass that runs again after a restart needs its loss.
 */
import type { Sql } from "./database.ts";

export interface CustomLossRow {
  readonly id: string;
  readonly session_id: string;
  readonly tenant: string;
  /** JSON of inputs and graph, as the wire writes them. */
  readonly body: string;
  /** Tells the same loss sent again from another under its number. */
  readonly fingerprint: string;
}

export function addCustomLoss(sql: Sql, row: CustomLossRow & { readonly now: number }): void {
  sql.run(
    "INSERT INTO custom_losses (id, session_id, tenant, body, fingerprint, created_at) VALUES (?, ?, ?, ?, ?, ?)",
    row.id,
    row.session_id,
    row.tenant,
    row.body,
    row.fingerprint,
    row.now,
  );
}

export const getCustomLoss = (sql: Sql, id: string): CustomLossRow | undefined =>
  sql.get<CustomLossRow>("SELECT * FROM custom_losses WHERE id = ?", id);

export const countCustomLosses = (sql: Sql, sessionId: string): number =>
  sql.get<{ n: number }>("SELECT COUNT(*) AS n FROM custom_losses WHERE session_id = ?", sessionId)!.n;
