/**
 * Copies of checkpoints, and adapters imported from a PEFT folder. Each becomes the only checkpoint of a new run that cannot be trained;
 * models can be created from it as from any other checkpoint.
 */
import { createHash } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { MemoryError, ModelError } from "@tinklet/engine";
import { peftBounds } from "@tinklet/models";
import type { CopyWeightsRequest, CopyWeightsResponse } from "@tinklet/wire";
import { randomHex } from "@tinklet/wire/entropy";
import { markOwned, UserError } from "../../queue/job.ts";
import { Refusal } from "../../queue/refusal.ts";
import { checkName, expiryOf, findReadable } from "../../queue/training/checkpoint-jobs.ts";
import type { Sql } from "../../store/database.ts";
import { sha256 } from "../../store/files/digest.ts";
import { storeErrorFrom } from "../../store/store-error.ts";
import {
  addFiles,
  addModel,
  type CheckpointRow,
  closeModel,
  getCheckpoint,
  getModel,
  importedBy,
  keepImport,
  type Lora,
  putCheckpoint,
  tinkerPath,
} from "../../store/tables/models.ts";
import { assignName } from "../../store/tables/names.ts";
import { addSession } from "../../store/tables/sessions.ts";
import { addAudit } from "../../store/tables/usage.ts";
import { openSession } from "../access/access.ts";
import { jsonAnswer } from "../answers.ts";
import type { Api, Call, Handlers } from "../api.ts";
import { readForm } from "../body/form.ts";
import { checkBaseModel, checkNumber, checkText } from "./fields.ts";

export function foreignWeightsHandlers(api: Api): Pick<Handlers, "copyWeights" | "importAdapter"> {
  return {
    copyWeights: ({ body }, call) => copyWeights(api, call, body),
    importAdapter: (_received, call) => importAdapter(api, call),
  };
}

interface Origin {
  /** The operation, for the session and the audit log. */
  readonly madeBy: "copy_weights" | typeof importedBy;
  /** Idempotency: a call with the same key returns the run of the first call. @defaultValue the request's idempotency key */
  readonly key?: string;
  readonly event: string;
  readonly projectId?: string | undefined;
  /** The session and the number of the new run. @defaultValue a new session */
  readonly place?: { readonly sessionId: string; readonly modelSeq: number } | undefined;
}

/** Creates a run with one checkpoint, or returns the one that an earlier call with the same key created. */
function addWeightsRun(
  api: Api,
  call: Call,
  sql: Sql,
  weights: Omit<CheckpointRow, "run_id" | "tenant" | "session_id" | "created_at" | "public">,
  { madeBy, event, projectId, place, ...origin }: Origin,
): string {
  const key = origin.key ?? call.request.headers.get("x-idempotency-key");
  const now = api.clock.now();
  const { tenant } = call.caller;
  const sessionId =
    place?.sessionId ??
    addSession(sql, {
      id: `s-${randomHex(10)}`,
      tenant,
      idempotencyKey: key === null || key.length > 200 ? undefined : `${madeBy} ${key}`,
      tags: [],
      userMetadata: {},
      sdkVersion: madeBy,
      projectId,
      displayName: undefined,
      now,
    });
  const modelSeq = place?.modelSeq ?? 0;
  const run = `${sessionId}:train:${modelSeq}`;
  const row: CheckpointRow = { ...weights, run_id: run, tenant, session_id: sessionId, created_at: now, public: 0 };
  const isNew = getModel(sql, run) === undefined;
  if (isNew) {
    addModel(sql, {
      id: run,
      sessionId,
      tenant,
      modelSeq,
      baseModel: row.base_model,
      lora: JSON.parse(row.lora) as Lora,
      userMetadata: undefined,
      now,
      nameIn:
        madeBy === importedBy
          ? undefined
          : (tx) => assignName(tx, tenant, { wanted: "copy", resumedRun: undefined }, (name) => api.models.has(name)),
    });
    closeModel(sql, run, "its weights were copied or imported and cannot be trained");
  }
  const known = getCheckpoint(sql, run, row.kind, row.name);
  if (place !== undefined && known?.files_id !== row.files_id && !isNew) {
    throw new Refusal(422, "number_reused", `model_seq_id ${modelSeq} of ${sessionId} was used for another model.`);
  }
  if (known === undefined) {
    putCheckpoint(sql, row);
    addAudit(sql, { at: now, tenant, event, modelId: run, tinkerPath: tinkerPath(row) });
  }
  return tinkerPath(row);
}

/** Copies a checkpoint that the caller may read, directly or with a token of its owner. The copy shares the files of its source. */
async function copyWeights(api: Api, call: Call, body: CopyWeightsRequest): Promise<CopyWeightsResponse> {
  const token = call.request.headers.get("x-tinker-weights-access-token") ?? body.weightsAccessToken;
  const access = token === undefined ? undefined : api.auth.callerOf(token)?.tenant;
  checkText("destination_project_id", body.destinationProjectId);
  const place = placeOf(api, call, body);
  let source: CheckpointRow;
  try {
    source = findReadable(api.store.db.sql, body.sourcePath, [call.caller.tenant, access], api.clock.now());
  } catch (error) {
    if (error instanceof UserError) throw new Refusal(404, "unknown_checkpoint", error.message);
    throw error;
  }
  const copy = { ...source, expires_at: expiryOf(body.ttlSeconds, api.clock.now()) };
  const path = await api.store.db.write((sql) =>
    addWeightsRun(api, call, sql, copy, {
      madeBy: "copy_weights",
      event: "checkpoint_copied",
      projectId: body.destinationProjectId,
      place,
    }),
  );
  return { tinkerPath: path };
}

/** The session and number of a copy's run; `undefined` for a new session, in the project if one is named. */
function placeOf(api: Api, call: Call, { sessionId, modelSeqId, destinationProjectId }: CopyWeightsRequest) {
  if (sessionId === undefined && modelSeqId === undefined) return undefined;
  if (sessionId === undefined || modelSeqId === undefined || destinationProjectId !== undefined) {
    throw new Refusal(
      422,
      "invalid_request",
      "copy_weights accepts either destination_project_id, or session_id and model_seq_id",
    );
  }
  checkNumber("model_seq_id", modelSeqId);
  return { sessionId: openSession(api, call, sessionId).id, modelSeq: modelSeqId };
}

/** The files of a PEFT folder that are read. Other files of a form are ignored, and no name of a request becomes a path. */
const peftFiles = ["adapter_config.json", "adapter_model.safetensors"] as const;

/**
 * Imports an adapter: a form with the two files of a PEFT folder and the optional fields `base_model` (required if several models are
 * served), `name` and `ttl_seconds`. The result is sampler weights without optimizer state, like those of `save_weights_for_sampler`.
 */
async function importAdapter(api: Api, call: Call): Promise<Response> {
  api.queue.checkDisk(call.caller.tenant, call.bytes.byteLength);
  const form = await formOf(call);
  const text = (name: string): string | undefined => {
    const value = form.get(name);
    return value === undefined || value.byteLength === 0 ? undefined : Buffer.from(value).toString("utf8", 0, 1000);
  };
  const [only, ...others] = api.models.keys();
  const baseModel = text("base_model") ?? (others.length === 0 ? only : undefined);
  if (baseModel === undefined)
    throw new Refusal(422, "invalid_request", "base_model: is required, because this server has several models");
  checkBaseModel(api, baseModel);
  const name = checkName(text("name") ?? "imported");
  const ttl = text("ttl_seconds");
  const expiresAt = expiryOf(ttl === undefined ? undefined : Number(ttl), api.clock.now());

  const engineQueue = api.queue.engineQueues.get(baseModel)!;
  const { configBytes, weightsBytes } = peftBounds(engineQueue.peftBase);
  const files = peftFiles.map((file, i): [name: string, bytes: Uint8Array] => {
    const bytes = form.get(file);
    if (bytes === undefined) {
      throw new Refusal(422, "invalid_request", `${file}: is required. Send a form with ${peftFiles.join(" and ")}.`);
    }
    const most = [configBytes, weightsBytes][i]!;
    if (bytes.byteLength <= most) return [file, bytes];
    const problem = `must be at most ${most} bytes for an adapter of ${baseModel}, got ${bytes.byteLength}`;
    throw new Refusal(413, "adapter_too_large", `${file}: ${problem}.`);
  });
  // A repeated import of the same adapter returns the first checkpoint, which then expires at the later of both times.
  const hash = createHash("sha256").update(JSON.stringify([baseModel, name]));
  for (const [, bytes] of files) hash.update((await sha256([bytes])).digest());
  const digest = hash.digest("hex");
  const at = { tenant: call.caller.tenant, key: digest, name, now: api.clock.now() };
  const known = await api.store.db.write((sql) => keepImport(sql, at, expiresAt));
  if (known !== undefined) {
    const { rank } = JSON.parse(known.lora) as Lora;
    return jsonAnswer({ tinker_path: tinkerPath(known), base_model: baseModel, lora_rank: rank });
  }

  const folder = await api.store.files.makeScratch();
  try {
    for (const [file, bytes] of files) await writeFile(join(folder, file), bytes);
    const { filesId, bytes, lora } = await engineQueue.importAdapter(folder);
    const path = await api.store.db.write((sql) => {
      addFiles(sql, filesId, bytes, api.clock.now());
      const weights = {
        kind: "sampler_weights",
        name,
        files_id: filesId,
        base_model: baseModel,
        lora: JSON.stringify(lora),
        step: 0,
        bytes,
        expires_at: expiresAt,
        user_metadata: null,
      } as const;
      return addWeightsRun(api, call, sql, weights, { madeBy: importedBy, event: "checkpoint_imported", key: digest });
    });
    await markOwned(api.queue.context, filesId);
    return jsonAnswer({ tinker_path: path, base_model: baseModel, lora_rank: lora.rank });
  } catch (error) {
    throw importRefusal(error, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function formOf({ bytes, request }: Call): Promise<Map<string, Uint8Array>> {
  const form = await readForm(bytes, request.headers.get("content-type") ?? "");
  if (form !== undefined) return form;
  throw new Refusal(400, "bad_form", `body: must be a form (multipart/form-data) with ${peftFiles.join(" and ")}`);
}

/** The refusal for an adapter that cannot be imported, without the path of the scratch folder. */
function importRefusal(error: unknown, folder: string): unknown {
  if (!(error instanceof ModelError)) return storeErrorFrom(error) ?? error;
  if (error instanceof MemoryError || /^(closed|worker_)/.test(error.code)) {
    const problem = "The engine has no memory for the adapter now. Try again.";
    return new Refusal(503, "engine_busy", problem, { retryAfterSeconds: 5 });
  }
  const message = error.message.replaceAll(join(folder, "/"), "").replaceAll(folder, "the folder");
  return new Refusal(400, "bad_adapter", message);
}
