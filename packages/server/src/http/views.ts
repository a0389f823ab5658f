/** Converts database rows to messages of the API. */
import { type Checkpoint, parseJson, stringifyJson, type TrainingRun } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { nameKey, referenceOf, resumedFromKey } from "@tinklet/wire/run-name";
import type { Sql } from "../store/database.ts";
import { type CheckpointRow, type Lora, liveCheckpoints, type ModelRow, tinkerPath } from "../store/tables/models.ts";
import { nameOfRun } from "../store/tables/names.ts";

const checkpointTypes = { weights: "training", sampler_weights: "sampler", external_weights: "external" } as const;

/** The latest time that a Date can represent; rows of older versions may have later ones. */
const latestDate = 8.64e15;

/** @param tenant - the caller: the name of a run is shown to its owner only. */
export function checkpointView(sql: Sql, row: CheckpointRow, tenant: string): Checkpoint {
  const runName = row.tenant === tenant ? nameOfRun(sql, row.run_id) : undefined;
  return {
    checkpointId: `${row.kind}/${row.name}`,
    checkpointType: checkpointTypes[row.kind],
    time: new Date(row.created_at),
    tinkerPath: tinkerPath(row),
    sizeBytes: row.bytes,
    public: row.public === 1,
    ...(row.expires_at === null ? {} : { expiresAt: new Date(Math.min(row.expires_at, latestDate)) }),
    ...(row.user_metadata === null ? {} : { userMetadata: JSON.parse(row.user_metadata) as Record<string, string> }),
    ...(runName === undefined ? {} : { runName, reference: referenceOf(runName, row.name) }),
  };
}

/** Metadata with all values as strings: the official client accepts no others. */
export function textValues(json: string | null): Record<string, string> | undefined {
  if (json === null) return undefined;
  const entries = Object.entries(parseJson(json) as Record<string, unknown>);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, typeof value === "string" ? value : stringifyJson(value)]),
  );
}

/** The metadata of another tenant's run. Clients send the run's name in them, and names are private. */
function withoutNames({ [nameKey]: _name, [resumedFromKey]: _resumed, ...rest }: Record<string, string>) {
  return rest;
}

/** Who sees a run, and when. */
export interface Viewer {
  readonly tenant: string;
  /** Whether published checkpoints of other tenants are shown. */
  readonly withPublic: boolean;
  readonly now: number;
}

export function runView(sql: Sql, row: ModelRow, { tenant, withPublic, now }: Viewer): TrainingRun {
  const checkpoints = liveCheckpoints(sql, row.id, now).filter(
    (checkpoint) => checkpoint.tenant === tenant || (withPublic && checkpoint.public === 1),
  );
  const last = checkpoints.find(({ kind }) => kind === "weights");
  const lastSampler = checkpoints.find(({ kind }) => kind === "sampler_weights");
  const notes = textValues(row.user_metadata);
  return {
    trainingRunId: row.id,
    baseModel: row.base_model,
    modelOwner: row.tenant,
    isLora: true,
    corrupted: row.state === "failed",
    loraRank: (JSON.parse(row.lora) as Lora).rank,
    lastRequestTime: new Date(row.last_request_at),
    ...omitUndefined({ lastCheckpoint: last && checkpointView(sql, last, tenant) }),
    ...omitUndefined({ lastSamplerCheckpoint: lastSampler && checkpointView(sql, lastSampler, tenant) }),
    ...omitUndefined({ userMetadata: row.tenant === tenant ? notes : notes && withoutNames(notes) }),
    ...(row.name === null || row.tenant !== tenant ? {} : { name: row.name }),
  };
}

const maxPage = 1000;

/** The requested page, clamped to valid values. */
export const page = ({ limit, offset }: { readonly limit: number; readonly offset: number }) => ({
  limit: Math.min(Math.max(limit, 0), maxPage),
  offset: Math.max(offset, 0),
});
