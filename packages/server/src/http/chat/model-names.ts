/**
 * Resolves `model`: a base model's name, a `tinker://` path, or one of the short names for weights that were saved for sampling (`@latest`,
 * `RUN`, `RUN:NAME`), as on the command line.
 */

import { UserError } from "../../queue/job.ts";
import { Refusal } from "../../queue/refusal.ts";
import { readable } from "../../queue/training/checkpoint-jobs.ts";
import {
  type CheckpointRow,
  latestSampler,
  listTenantCheckpoints,
  samplersOfRun,
  tinkerPath,
} from "../../store/tables/models.ts";
import type { Api, ServedModel } from "../api.ts";
import { badField } from "./fields.ts";

/** A model that a chat may use. */
export interface NamedModel {
  /** The name in the request, repeated in responses. */
  readonly id: string;
  readonly served: ServedModel;
  /** The adapter's files; `undefined` for the base model. */
  readonly filesId: string | undefined;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** @throws {@link Refusal} 400 without a name; 404 for a model that does not exist or that this key may not use. */
export function findModel(api: Api, tenant: string, name: unknown): NamedModel {
  if (typeof name !== "string" || name === "") throw badField("model", "is required", "missing_required_parameter");
  const base = api.models.get(name);
  if (base !== undefined) return { id: name, served: base, filesId: undefined, createdAt: api.clock.now() };
  const row = name.length > 1000 ? undefined : findCheckpoint(api, tenant, name);
  const served = row && api.models.get(row.base_model);
  if (row === undefined || served === undefined) {
    const known = [...api.models.keys()].map((each) => JSON.stringify(each)).join(", ");
    throw new Refusal(
      404,
      "model_not_found",
      `model: ${JSON.stringify(name.slice(0, 200))} does not exist or this key may not use it. Base models here: ${known}; tinker://… paths, RUN, RUN:NAME and @latest are accepted too.`,
      { param: "model" },
    );
  }
  return { id: name, served, filesId: row.files_id, createdAt: row.created_at };
}

function findCheckpoint(api: Api, tenant: string, name: string): CheckpointRow | undefined {
  const { sql } = api.store.db;
  const now = api.clock.now();
  if (name === "@latest") return latestSampler(sql, tenant, now);
  if (name.startsWith("tinker://")) {
    try {
      return readable(sql, name, [tenant], now);
    } catch (error) {
      if (error instanceof UserError) return undefined;
      throw error;
    }
  }
  // run ids have colons: `session:train:0`
  const cut = /:train:\d+$/.test(name) ? -1 : name.lastIndexOf(":");
  const run = cut < 0 ? name : name.slice(0, cut);
  const wanted = cut < 0 ? undefined : name.slice(cut + 1);
  return samplersOfRun(sql, run, now).find(
    (row) => (row.tenant === tenant || row.public === 1) && (wanted === undefined || row.name === wanted),
  );
}

/** Checkpoints in the list; older ones can be used by their path. */
const mostListed = 1000;

/** The models that a tenant may use: base models, then its checkpoints, newest first. */
export function listModels(api: Api, tenant: string): NamedModel[] {
  const now = api.clock.now();
  const { rows } = listTenantCheckpoints(api.store.db.sql, tenant, { now, limit: mostListed, offset: 0 });
  return [
    ...[...api.models.values()].map((served) => ({ id: served.name, served, filesId: undefined, createdAt: now })),
    ...rows.flatMap((row): NamedModel[] => {
      const served = row.kind === "external_weights" ? undefined : api.models.get(row.base_model);
      return served === undefined
        ? []
        : [{ id: tinkerPath(row), served, filesId: row.files_id, createdAt: row.created_at }];
    }),
  ];
}
