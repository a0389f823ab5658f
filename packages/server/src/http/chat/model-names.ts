/**
 * Resolves `model`: a base model's name, or saved weights by the name of their run (`bike`, `bike@step-40`, `bike@best`), by its id
 * (`RUN`, `RUN:CHECKPOINT`), by `@latest` or by a `tinker://` path, as on the command line.
 */

import { checkpointNames, referenceOf, runNameProblem, splitReference } from "@tinklet/wire/run-name";
import { UserError } from "../../queue/job.ts";
import { Refusal } from "../../queue/refusal.ts";
import { readable } from "../../queue/training/checkpoint-jobs.ts";
import { type CheckpointRow, latestSampler, listTenantCheckpoints, tinkerPath } from "../../store/tables/models.ts";
import { findSaved, nameOfRun } from "../../store/tables/names.ts";
import type { Api, ServedModel } from "../api.ts";
import { badField } from "./fields.ts";

/** A model that a chat may use. */
export interface NamedModel {
  /** The name in the request, repeated in responses. */
  readonly id: string;
  readonly served: ServedModel;
  /** The adapter's files; `undefined` for the base model. */
  readonly filesId: string | undefined;
  /** The checkpoint's `tinker://` path; `undefined` for the base model. */
  readonly path: string | undefined;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** @throws {@link Refusal} 400 without a name; 404 for a model that does not exist or that this key may not use. */
export function findModel(api: Api, tenant: string, name: unknown): NamedModel {
  if (typeof name !== "string" || name === "") throw badField("model", "is required", "missing_required_parameter");
  const base = api.models.get(name);
  if (base !== undefined)
    return { id: name, served: base, filesId: undefined, path: undefined, createdAt: api.clock.now() };
  const row = name.length > 1000 ? undefined : findCheckpoint(api, tenant, name);
  const served = row && api.models.get(row.base_model);
  if (row === undefined || served === undefined) {
    const known = [...api.models.keys()].map((each) => JSON.stringify(each)).join(", ");
    throw new Refusal(
      404,
      "model_not_found",
      `model: ${JSON.stringify(name.slice(0, 200))} does not exist or this key may not use it. Base models here: ${known}. Trained models are NAME, NAME@CHECKPOINT, RUN_ID, a tinker://… path or @latest; GET /v1/models lists them.`,
      { param: "model" },
    );
  }
  return modelOf(name, served, row);
}

function findCheckpoint(api: Api, tenant: string, model: string): CheckpointRow | undefined {
  const { sql } = api.store.db;
  const now = api.clock.now();
  if (model === "@latest") return latestSampler(sql, tenant, now);
  if (model.startsWith("tinker://")) {
    try {
      return readable(sql, model, [tenant], now);
    } catch (error) {
      if (error instanceof UserError) return undefined;
      throw error;
    }
  }
  const { run, checkpoint } = splitModel(model);
  const place = runNameProblem(run) === undefined ? { name: run } : { runId: run };
  return findSaved(sql, { tenant, now, ...place }, checkpoint === undefined ? undefined : checkpointNames(checkpoint));
}

/** `RUN`, `RUN@CHECKPOINT` or `RUN:CHECKPOINT`. Run ids have colons: `session:train:0`. */
function splitModel(model: string): ReturnType<typeof splitReference> {
  const cut = model.lastIndexOf(":");
  if (model.includes("@") || cut < 0 || /:train:\d+$/.test(model)) return splitReference(model);
  return { run: model.slice(0, cut), checkpoint: model.slice(cut + 1) };
}

/** Checkpoints in the list; older ones can be used by their path. */
const mostListed = 1000;

/**
 * The models that a tenant may use: base models, then its runs, each with its newest weights and all its checkpoints, those with the newest
 * checkpoint first. Training state and sampler weights of one checkpoint are one model.
 */
export function listModels(api: Api, tenant: string): NamedModel[] {
  const { sql } = api.store.db;
  const now = api.clock.now();
  const { rows } = listTenantCheckpoints(sql, tenant, { now, limit: mostListed, offset: 0 });
  const names = new Map<string, string | undefined>();
  /** By name; runs without a name, which are imported adapters, by their id. */
  const runs = new Map<string, Map<string, NamedModel>>();
  for (const row of rows) {
    const served = row.kind === "external_weights" ? undefined : api.models.get(row.base_model);
    if (served === undefined) continue;
    if (!names.has(row.run_id)) names.set(row.run_id, nameOfRun(sql, row.run_id));
    const name = names.get(row.run_id);
    const models = runs.get(name ?? row.run_id) ?? new Map<string, NamedModel>();
    runs.set(name ?? row.run_id, models);
    const ids = name === undefined ? [tinkerPath(row)] : [name, referenceOf(name, row.name)];
    for (const id of ids) {
      const known = models.get(id);
      const isBetter = known === undefined || (row.kind === "sampler_weights" && !isSampler(known));
      if (isBetter && !api.models.has(id)) models.set(id, modelOf(id, served, row));
    }
  }
  const bases = [...api.models.values()].map((served) => ({
    id: served.name,
    served,
    filesId: undefined,
    path: undefined,
    createdAt: now,
  }));
  return [...bases, ...[...runs.values()].flatMap((models) => [...models.values()])];
}

const isSampler = ({ path }: NamedModel): boolean => path?.includes("/sampler_weights/") === true;

const modelOf = (id: string, served: ServedModel, row: CheckpointRow): NamedModel => ({
  id,
  served,
  filesId: row.files_id,
  path: tinkerPath(row),
  createdAt: row.created_at,
});
