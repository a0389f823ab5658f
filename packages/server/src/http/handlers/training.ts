/** Handlers that create, describe and train models. All except `get_info` submit a request to the queue. */
import { type ForwardBackwardRequest, type Operation, peekForwardBackwardRequest, stringifyJson } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { decodePass } from "../../queue/engine-input.ts";
import { engineSeed } from "../../queue/engine-seed.ts";
import { fingerprintJson, fingerprintPass } from "../../queue/fingerprint.ts";
import { failureOf, type ResolvedParams, UserError } from "../../queue/job.ts";
import { Refusal } from "../../queue/refusal.ts";
import { checkName, checkOptimizer, findReadable } from "../../queue/training/checkpoint-jobs.ts";
import { customLossId, findLoss } from "../../queue/training/custom-pass.ts";
import type { Lora, ModelRow, NewModel } from "../../store/tables/models.ts";
import { assignName, namingOf } from "../../store/tables/names.ts";
import type { Failure, RequestKind } from "../../store/tables/requests.ts";
import type { SessionRow } from "../../store/tables/sessions.ts";
import { openSession, ownModel } from "../access/access.ts";
import type { Api, Call, Handlers, PassHandler } from "../api.ts";
import { checkBaseModel, checkMetadata, checkNumber } from "./fields.ts";

type TrainingOperation =
  | "createModel"
  | "getInfo"
  | "unloadModel"
  | "forward"
  | "forwardBackward"
  | "optimStep"
  | "saveWeights"
  | "saveWeightsForSampler"
  | "saveWeightsExternal"
  | "loadWeights";

/**
 * Operations numbered by `seq_id` within a model, and the kind that each is stored as; forward passes are not listed here. A refused request
 * still uses up its number, so that later requests do not wait for it.
 */
export const numberedKinds: Partial<Record<Operation, RequestKind>> = {
  optimStep: "optim_step",
  saveWeights: "save_weights",
  saveWeightsForSampler: "save_weights_for_sampler",
  saveWeightsExternal: "save_weights_external",
  loadWeights: "load_weights",
};

/** @throws {@link Refusal} 400 for an optimizer other than AdamW. */
function checkOptimizerType(field: string, type: unknown): void {
  if (type === undefined || type === "adamw") return;
  const shown = stringifyJson(type).slice(0, 100);
  throw new Refusal(400, "unknown_optimizer", `${field}.type: must be adamw, got ${shown}`);
}

/** Refuses a step with another optimizer by its name. Decoding would refuse it for its missing `adam_params` instead. */
export function refuseOtherOptimizers(wire: unknown): void {
  const params = (wire as { optimizer_params?: { type?: unknown } } | null | undefined)?.optimizer_params;
  if (typeof params === "object" && params !== null) checkOptimizerType("optimizer_params", params.type ?? null);
}

export function trainingHandlers(api: Api): Pick<Handlers, TrainingOperation> {
  /** Submits a JSON request of an existing model to the queue. */
  const submit = async (
    call: Call,
    kind: RequestKind,
    { modelId, seqId }: { modelId: string; seqId?: number | undefined },
    extra: { resolvedParams?: ResolvedParams; ignore?: readonly string[]; payload?: Uint8Array } = {},
  ): Promise<{ requestId: string; modelId: string }> => {
    const model = openModel(api, call, modelId);
    const requestId = await api.queue.submitTraining(
      {
        ...common(api, call, model),
        kind,
        modelId,
        ...numbered(seqId),
        fingerprint: fingerprintJson(kind, call.wire, extra.ignore),
        payload: extra.payload ?? call.bytes,
        payloadType: "json",
        tokens: 0,
        ...omitUndefined({ resolvedParams: extra.resolvedParams && { ...extra.resolvedParams } }),
      },
      model,
    );
    return { requestId, modelId };
  };

  const createModel: Handlers["createModel"] = async ({ body }, call) => {
    const session = openSession(api, call, body.sessionId);
    checkBaseModel(api, body.baseModel);
    checkNumber("model_seq_id", body.modelSeqId);
    checkMetadata("user_metadata", body.userMetadata);
    checkOptimizerType("optimizer_config", body.optimizerConfig?.["type"]);
    const config = body.loraConfig ?? { rank: 32, trainAttn: true, trainMlp: true, trainUnembed: true };
    if (config.rank > api.limits.rank) {
      throw new Refusal(
        400,
        "rank_too_large",
        `lora_config.rank: must be at most ${api.limits.rank}, got ${config.rank}`,
      );
    }
    const lora: Lora = {
      rank: config.rank,
      alpha: 32,
      seed: engineSeed(config.seed),
      trainAttn: config.trainAttn,
      trainMlp: config.trainMlp,
      trainUnembed: config.trainUnembed,
    };
    const model = newModel(api, call, { ...body, session, baseModel: body.baseModel, lora });
    const requestId = await api.queue.submitModel(model, {
      ...common(api, call, { session_id: session.id }),
      kind: "create_model",
      fingerprint: fingerprintJson("create_model", call.wire),
      payload: call.bytes,
      payloadType: "json",
      tokens: 0,
    });
    return { requestId, modelId: model.id };
  };

  /** Creates a model from a checkpoint. */
  const createByLoading = async (body: Parameters<Handlers["loadWeights"]>[0]["body"], call: Call) => {
    if (body.sessionId === undefined || body.modelSeqId === undefined) {
      throw new Refusal(422, "invalid_request", "load_weights needs either model_id, or session_id and model_seq_id");
    }
    const session = openSession(api, call, body.sessionId);
    checkNumber("model_seq_id", body.modelSeqId);
    checkMetadata("user_metadata", body.userMetadata);
    const access = accessTenant(api, body.weightsAccessToken);
    const row = findReadable(api.store.db.sql, body.path, [call.caller.tenant, access], api.clock.now());
    checkOptimizer(row, body.optimizer);
    if (body.baseModel !== undefined && body.baseModel !== row.base_model) {
      throw new Refusal(
        400,
        "base_model_mismatch",
        `${body.path} was trained on ${row.base_model}, not on ${body.baseModel}.`,
      );
    }
    checkBaseModel(api, row.base_model);
    const model = newModel(api, call, {
      session,
      modelSeqId: body.modelSeqId,
      baseModel: row.base_model,
      lora: JSON.parse(row.lora) as Lora,
      userMetadata: body.userMetadata,
    });
    const requestId = await api.queue.submitModel(
      { ...model, from: { filesId: row.files_id, optimizer: body.optimizer } },
      {
        ...common(api, call, { session_id: session.id }),
        kind: "load_weights",
        fingerprint: fingerprintJson("load_weights", call.wire, ["weights_access_token"]),
        payload: withoutToken(call),
        payloadType: "json",
        tokens: 0,
      },
    );
    return { requestId, modelId: model.id };
  };

  const forwardBackward: PassHandler = async (call, form) => {
    const payloadType = form === "proto" ? "proto" : "json";
    let pass: ForwardBackwardRequest | undefined;
    let failure: Failure | undefined;
    let customLoss: string | undefined;
    let at: { modelId: string; seqId?: number | undefined };
    try {
      pass = decodePass(call.bytes, payloadType);
      at = pass;
      checkPass(api, pass);
      customLoss = customLossId(pass);
      if (customLoss !== undefined)
        findLoss(api.store.db.sql, customLoss, ownModel(api, call, pass.modelId).session_id);
    } catch (error) {
      // Reported through the future, because the official client sends no further request after a chunk was refused.
      const peeked = pass ?? (form === "proto" ? peekForwardBackwardRequest(call.bytes) : peekJson(call.wire));
      if (peeked === undefined) throw error;
      at = peeked;
      failure = failureOf(error);
    }
    const model = openModel(api, call, at.modelId);
    const kind = pass?.forwardOnly === true || form === "forward-json" ? "forward" : "forward_backward";
    const requestId = await api.queue.submitTraining(
      {
        ...common(api, call, model),
        kind,
        modelId: model.id,
        ...numbered(at.seqId),
        fingerprint:
          pass === undefined ? fingerprintJson(kind, { bytes: String(failure?.error) }) : fingerprintPass(kind, pass),
        payload: call.bytes,
        payloadType,
        tokens: pass === undefined ? 0 : passTokens(pass),
        ...(customLoss === undefined ? {} : { resolvedParams: { customLoss } }),
        ...omitUndefined({ failure }),
      },
      model,
      pass,
    );
    return { requestId, modelId: model.id };
  };

  return {
    createModel,
    forward: forwardBackward,
    forwardBackward,
    getInfo: ({ body }, call) => {
      const model = ownModel(api, call, body.modelId);
      const served = api.models.get(model.base_model);
      const lora = JSON.parse(model.lora) as Lora;
      return {
        modelId: model.id,
        modelData: {
          modelName: model.base_model,
          ...omitUndefined({ arch: served?.info.architecture, tokenizerId: served?.tokenizerId }),
        },
        isLora: true,
        loraRank: lora.rank,
        modelName: model.base_model,
        type: "get_info",
      };
    },
    unloadModel: ({ body }, call) => submit(call, "unload_model", body),
    optimStep: ({ body }, call) => submit(call, "optim_step", body),
    saveWeights: ({ body }, call) => {
      if (body.path !== undefined) checkName(body.path);
      checkMetadata("user_metadata", body.userMetadata);
      return submit(call, "save_weights", body);
    },
    saveWeightsForSampler: ({ body }, call) => {
      if (body.path !== undefined) checkName(body.path);
      checkMetadata("user_metadata", body.userMetadata);
      // the Python client uses a new sampling_session_seq_id for each retry of the same save
      return submit(call, "save_weights_for_sampler", body, { ignore: ["sampling_session_seq_id"] });
    },
    saveWeightsExternal: ({ body }, call) => {
      checkName(body.path);
      if (body.ageEncryptionRecipients !== undefined) {
        throw new Refusal(
          400,
          "no_encryption",
          "age_encryption_recipients: is not supported, because this server does not encrypt exports; leave it out",
        );
      }
      return submit(call, "save_weights_external", body);
    },
    loadWeights: ({ body }, call) => {
      if (body.modelId === undefined) return createByLoading(body, call);
      const access = accessTenant(api, body.weightsAccessToken);
      return submit(
        call,
        "load_weights",
        { modelId: body.modelId, seqId: body.seqId },
        {
          ignore: ["weights_access_token"],
          payload: withoutToken(call),
          ...(access === undefined ? {} : { resolvedParams: { accessTenant: access } }),
        },
      );
    },
  };
}

const numbered = (seqId: number | undefined) => (seqId === undefined || seqId === 0 ? {} : { seq: checkSeq(seqId) });

function checkSeq(seqId: number): number {
  checkNumber("seq_id", seqId, 1);
  return seqId;
}

function openModel(api: Api, call: Call, id: string): ModelRow {
  const model = ownModel(api, call, id);
  openSession(api, call, model.session_id);
  checkBaseModel(api, model.base_model);
  return model;
}

/** The tenant whose weights a token gives access to. The token itself is not stored. */
function accessTenant(api: Api, token: string | undefined): string | undefined {
  if (token === undefined) return undefined;
  const tenant = api.auth.callerOf(token)?.tenant;
  if (tenant === undefined)
    throw new Refusal(400, "bad_weights_access_token", "weights_access_token: is not a key or token of this server");
  return tenant;
}

function withoutToken(call: Call): Uint8Array {
  const { weights_access_token: _, ...rest } = call.wire as Record<string, unknown>;
  return new TextEncoder().encode(stringifyJson(rest));
}

const common = (api: Api, call: Call, { session_id: sessionId }: { session_id: string }) => ({
  tenant: call.caller.tenant,
  sessionId,
  now: api.clock.now(),
});

function newModel(
  api: Api,
  call: Call,
  fields: { session: SessionRow; modelSeqId: number; baseModel: string; lora: Lora; userMetadata?: unknown },
): NewModel {
  const { session, modelSeqId, baseModel, lora, userMetadata } = fields;
  const { tenant } = call.caller;
  return {
    id: `${session.id}:train:${modelSeqId}`,
    sessionId: session.id,
    tenant,
    modelSeq: modelSeqId,
    baseModel,
    lora,
    userMetadata,
    now: api.clock.now(),
    nameIn: (sql) => assignName(sql, tenant, namingOf(userMetadata, session), (name) => api.models.has(name)),
  };
}

/** The `model_id` and `seq_id` of a JSON body that cannot be decoded. */
export function peekJson(wire: unknown): { modelId: string; seqId: number } | undefined {
  if (typeof wire !== "object" || wire === null) return undefined;
  const { model_id: modelId, seq_id: seqId } = wire as Record<string, unknown>;
  return typeof modelId === "string" && Number.isSafeInteger(seqId) && (seqId as number) > 0
    ? { modelId, seqId: seqId as number }
    : undefined;
}

const passTokens = (pass: ForwardBackwardRequest): number =>
  pass.forwardBackwardInput.data.reduce((sum, datum) => sum + datum.modelInput.tokenCount, 0);

function checkPass(api: Api, pass: ForwardBackwardRequest): void {
  const { limits } = api;
  const { length } = pass.forwardBackwardInput.data;
  if (length === 0) throw new UserError("data: is empty");
  if (length > limits.batchData) {
    throw new UserError(`data: must have at most ${limits.batchData} examples, got ${length}`);
  }
  const tokens = passTokens(pass);
  if (tokens > limits.batchTokens) {
    throw new UserError(`data: must have at most ${limits.batchTokens} tokens, got ${tokens}`);
  }
}
