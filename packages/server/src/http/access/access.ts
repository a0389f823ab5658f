/** Access to stored objects. Objects of other tenants get the same error as objects that do not exist. */

import { Refusal } from "../../queue/refusal.ts";
import type { CheckpointKind, CheckpointRow, ModelRow } from "../../store/tables/models.ts";
import { getCheckpoint, getModel, isLive } from "../../store/tables/models.ts";
import { getSampler, getSession, type SamplerRow, type SessionRow } from "../../store/tables/sessions.ts";
import type { Api, Call } from "../api.ts";

const shown = (id: string) => JSON.stringify(id.slice(0, 200));
const missing = (what: string, id: string) =>
  new Refusal(404, `unknown_${what}`, `There is no ${what} ${shown(id)} of this key.`);

/** The same error for a request that never existed and for one of another tenant. */
export const unknownRequest = (id: string): Refusal => missing("request", id);

export function ownSession(api: Api, { caller }: Call, id: string): SessionRow {
  const row = getSession(api.store.db.sql, id);
  if (row === undefined || row.tenant !== caller.tenant) throw missing("session", id);
  return row;
}

/** A session of the caller that still accepts requests. */
export function openSession(api: Api, call: Call, id: string): SessionRow {
  const row = ownSession(api, call, id);
  if (row.finished_at !== null)
    throw new Refusal(410, "session_finished", `The session ${shown(id)} was finished by its client.`);
  api.sessionActivity.seen(id);
  return row;
}

export function ownModel(api: Api, { caller }: Call, id: string): ModelRow {
  const row = getModel(api.store.db.sql, id);
  if (row === undefined || row.tenant !== caller.tenant) throw missing("model", id);
  return row;
}

export function ownSampler(api: Api, { caller }: Call, id: string): SamplerRow {
  const row = getSampler(api.store.db.sql, id);
  if (row === undefined || row.tenant !== caller.tenant) throw missing("sampler", id);
  return row;
}

function parts(checkpointId: string): [CheckpointKind, string] {
  const [kind, name] = checkpointId.split("/") as [CheckpointKind, string];
  return [kind, name];
}

const live = (api: Api, row: CheckpointRow | undefined): row is CheckpointRow =>
  row !== undefined && isLive(row, api.clock.now());

export function ownCheckpoint(api: Api, { caller }: Call, run: string, checkpointId: string): CheckpointRow {
  const row = getCheckpoint(api.store.db.sql, run, ...parts(checkpointId));
  if (!live(api, row) || row.tenant !== caller.tenant) throw missing("checkpoint", `tinker://${run}/${checkpointId}`);
  return row;
}

/** A checkpoint of the caller, or a published one. */
export function readableCheckpoint(api: Api, { caller }: Call, run: string, checkpointId: string): CheckpointRow {
  const row = getCheckpoint(api.store.db.sql, run, ...parts(checkpointId));
  if (!live(api, row) || (row.tenant !== caller.tenant && row.public !== 1)) {
    throw missing("checkpoint", `tinker://${run}/${checkpointId}`);
  }
  return row;
}
