/**
 * Rows of `responses`: responses of OpenAI's Responses API, each with the whole conversation up to its end, so that deleting one does not
 * break those that continued it.
 */
import type { Sql } from "../database.ts";

export interface ResponseRow {
  readonly id: string;
  readonly tenant: string;
  /** JSON of the response object. */
  readonly body: string;
  /** JSON of the conversation: messages as chat templates read them, without instructions. */
  readonly messages: string;
  readonly created_at: number;
  readonly expires_at: number;
}

/** How much one tenant may store. */
export interface ResponseBounds {
  readonly count: number;
  readonly bytes: number;
}

/** Stores a response, and deletes expired ones and the tenant's oldest ones beyond the bounds. */
export function addResponse(sql: Sql, row: ResponseRow, { count, bytes }: ResponseBounds): void {
  const { id, tenant, body, messages, created_at: createdAt, expires_at: expiresAt } = row;
  expireResponses(sql, createdAt);
  sql.run(
    "INSERT INTO responses (id, tenant, body, messages, bytes, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    id,
    tenant,
    body,
    messages,
    Buffer.byteLength(body) + Buffer.byteLength(messages),
    createdAt,
    expiresAt,
  );
  sql.run(
    `DELETE FROM responses WHERE id IN (
       SELECT id FROM (
         SELECT id, ROW_NUMBER() OVER newest AS place, SUM(bytes) OVER newest AS total FROM responses WHERE tenant = ?
         WINDOW newest AS (ORDER BY created_at DESC, rowid DESC ROWS UNBOUNDED PRECEDING)
       ) WHERE place > ? OR total > ?
     )`,
    tenant,
    count,
    bytes,
  );
}

export const expireResponses = (sql: Sql, now: number): void =>
  void sql.run("DELETE FROM responses WHERE expires_at <= ?", now);

export const getResponse = (sql: Sql, id: string, tenant: string, now: number): ResponseRow | undefined =>
  sql.get<ResponseRow>("SELECT * FROM responses WHERE id = ? AND tenant = ? AND expires_at > ?", id, tenant, now);

/** @returns whether there was one */
export const deleteResponse = (sql: Sql, id: string, tenant: string): boolean =>
  sql.run("DELETE FROM responses WHERE id = ? AND tenant = ?", id, tenant).changes > 0;
