/** Rows of `sign_ins`: signed-in browsers, until they sign out or their sign-in expires. */
import type { Sql } from "../database.ts";

export interface SignInRow {
  /** Hash of the cookie. */
  readonly id: string;
  readonly tenant: string;
  /** Fingerprint of the tenant's key when it signed in. */
  readonly key: string;
  readonly expires_at: number;
}

/** Maximum number of sign-ins per tenant; above it the one that expires first is deleted. */
const maxPerTenant = 100;

export function addSignIn(sql: Sql, row: SignInRow, now: number): void {
  sql.run("DELETE FROM sign_ins WHERE expires_at <= ?", now);
  sql.run(
    `DELETE FROM sign_ins WHERE id IN
      (SELECT id FROM sign_ins WHERE tenant = ? ORDER BY expires_at DESC LIMIT -1 OFFSET ?)`,
    row.tenant,
    maxPerTenant - 1,
  );
  sql.run(
    "INSERT INTO sign_ins (id, tenant, key, expires_at) VALUES (?, ?, ?, ?)",
    row.id,
    row.tenant,
    row.key,
    row.expires_at,
  );
}

export const getSignIn = (sql: Sql, id: string): SignInRow | undefined =>
  sql.get<SignInRow>("SELECT * FROM sign_ins WHERE id = ?", id);

export const deleteSignIn = (sql: Sql, id: string): void => void sql.run("DELETE FROM sign_ins WHERE id = ?", id);
