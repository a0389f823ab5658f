/** Storage of checkpoints over time, for billing usage. */
import type { BillingUsageEvent } from "@tinklet/wire";
import type { CheckpointRow } from "../../store/tables/models.ts";

const hourMs = 3_600_000;
const day = 24 * hourMs;

/** Storage events per response. */
const maxStorageEvents = 10_000;

/**
 * Gigabyte-hours of existing checkpoints per day; per hour it would be thousands of equal rows. A checkpoint's whole days are recorded as
 * one change at the first day and one at the last, so that the work grows with checkpoints plus days, not with their product.
 */
export function storageUse(rows: readonly CheckpointRow[], from: number, to: number): BillingUsageEvent[] {
  const accounts = new Map<string, { row: CheckpointRow; parts: Map<number, number>; changes: Map<number, number> }>();
  const add = (to: Map<number, number>, at: number, value: number) => void to.set(at, (to.get(at) ?? 0) + value);
  for (const row of rows) {
    const begin = Math.max(row.created_at, from);
    const end = Math.min(row.expires_at ?? Infinity, to);
    if (end <= begin) continue;
    const key = `${row.session_id}\0${row.base_model}`;
    const account = accounts.get(key) ?? { row, parts: new Map<number, number>(), changes: new Map<number, number>() };
    accounts.set(key, account);
    const gigabytes = row.bytes / 1e9;
    const [first, last] = [Math.floor(begin / day), Math.floor(end / day)];
    if (first === last) add(account.parts, first, gigabytes * ((end - begin) / hourMs));
    else {
      add(account.parts, first, gigabytes * (((first + 1) * day - begin) / hourMs));
      add(account.parts, last, gigabytes * ((end - last * day) / hourMs));
      add(account.changes, first + 1, gigabytes * 24);
      add(account.changes, last, -gigabytes * 24);
    }
  }
  const events: BillingUsageEvent[] = [];
  for (const { row, parts, changes } of accounts.values()) {
    const days = [...parts.keys(), ...changes.keys()];
    const [first, last] = [days.reduce((a, b) => Math.min(a, b)), days.reduce((a, b) => Math.max(a, b))];
    let whole = 0;
    for (let at = first; at <= last && events.length < maxStorageEvents; at++) {
      whole += changes.get(at) ?? 0;
      const hours = whole + (parts.get(at) ?? 0);
      if (hours <= 1e-12) continue;
      events.push({
        bucketStart: new Date(at * day),
        bucketEnd: new Date((at + 1) * day),
        baseModel: row.base_model,
        userId: row.tenant,
        userName: row.tenant,
        sessionId: row.session_id,
        eventInfo: { type: "storage", gigabyteHours: hours },
      });
    }
  }
  return events.sort((a, b) => a.bucketStart.getTime() - b.bucketStart.getTime());
}
