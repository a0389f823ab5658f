/** Handlers that create, describe and train models. */
import type { AdapterState } from "@tinklet/engine";
import {
  checkpointNameProblem,
  decodePass,
  engineSeed,
  lossRequest,
  passResult,
  Refusal,
} from "@tinklet/server/portable";
import { stringifyJson } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { lastStepName } from "../checkpoints.ts";
import { digestOf, digestWithout } from "../digest.ts";
import { hostOf, liveModel, openSession, type PageState } from "../page.ts";
import { jsonOutcome, type Outcome } from "../requests.ts";
import { type CheckpointKind, samplerStateKey, stateBytes } from "../storage/storage.ts";
import { TrainingModel } from "../training-model.ts";
import type { Call, HandlersOf } from "./handler.ts";

type TrainingOperation =
  | "createModel"
  | "getInfo"
  | "unloadModel"
  | "forward"
  | "forwardBackward"
  | "optimStep"
  | "saveWeights"
  | "saveWeightsForSampler"
  | "loadWeights";

const badRequest = (code: string, message: string): Refusal => new Refusal(400, code, message);

/** Metadata with all values as strings, as the API returns it. */
const textValues = (metadata: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(metadata).map(([key, value]) => [key, typeof value === "string" ? value : stringifyJson(value)]),
  );

export function trainingHandlers(page: PageState): HandlersOf<TrainingOperation> {
  /** Accepts a request of an existing model. */
  const submit = (
    call: Call,
    kind: string,
    { modelId, seqId }: { readonly modelId: string; readonly seqId?: number | undefined },
    run: (model: TrainingModel) => Promise<Outcome>,
    digest = digestOf(kind, call.bytes),
  ): { requestId: string; modelId: string } => {
    const model = liveModel(page, modelId);
    const number = model.submit(seqId || undefined, digest, async () => {
      const outcome = await run(model);
      page.checkpoints.note(model.record);
      return outcome;
    });
    return { requestId: page.requests.idOf(number), modelId };
  };

  const pass: HandlersOf<"forwardBackward">["forwardBackward"] = (_received, call) => {
    const isProto = (call.headers.get("content-type") ?? "").includes("protobuf");
    const decoded = decodePass(call.bytes, isProto ? "proto" : "json");
    const isForward = decoded.forwardOnly === true;
    return submit(call, isForward ? "forward" : "forward_backward", decoded, async (model) => {
      const request = lossRequest(decoded);
      const result = isForward
        ? await model.call((engine, adapter) => engine.forward(adapter, request))
        : await model.backward((engine, adapter) => engine.forwardBackward(adapter, request));
      return { body: passResult(result), type: "proto" };
    });
  };

  /** Checks the name and the options of a save. */
  const checkSave = (
    kind: CheckpointKind,
    modelId: string,
    {
      path,
      ttlSeconds,
      overwrite,
    }: { path?: string | undefined; ttlSeconds?: number | undefined; overwrite?: boolean },
  ): void => {
    if (ttlSeconds !== undefined) {
      throw badRequest(
        "no_ttl",
        "ttl_seconds: is not supported in a browser; delete the checkpoint when it is not needed",
      );
    }
    if (path === undefined) return;
    const problem = checkpointNameProblem(path);
    if (problem !== undefined) throw badRequest("bad_request", problem);
    if (path === lastStepName) {
      throw badRequest(
        "bad_request",
        `path: ${JSON.stringify(path)} is the name of the state after the last step; use another name`,
      );
    }
    if (overwrite !== true && page.checkpoints.has(modelId, kind, path)) {
      const fix = kind === "weights" ? "Use another name, or set overwrite." : "Use another name.";
      throw badRequest("bad_request", `The checkpoint ${kind}/${path} already exists. ${fix}`);
    }
  };

  const save = async (
    model: TrainingModel,
    {
      kind,
      name,
      userMetadata,
    }: { kind: CheckpointKind; name: string; userMetadata?: Readonly<Record<string, string>> },
  ): Promise<string> => {
    const state = await model.call((engine, adapter) => engine.exportState(adapter, { optimizer: kind === "weights" }));
    const { record } = model;
    return page.checkpoints.add(
      {
        runId: record.id,
        kind,
        name,
        baseModel: record.baseModel,
        lora: record.lora,
        step: record.step,
        bytes: stateBytes(state),
        createdAt: page.clock.now(),
        ...(userMetadata && { userMetadata }),
      },
      state,
    );
  };

  return {
    createModel: ({ body }, call) => {
      const session = openSession(page, body.sessionId);
      const host = hostOf(page, body.baseModel);
      const type = body.optimizerConfig?.["type"];
      if (type !== undefined && type !== "adamw") {
        throw badRequest(
          "unknown_optimizer",
          `optimizer_config.type: must be adamw, got ${stringifyJson(type).slice(0, 100)}`,
        );
      }
      const id = `${session.id}:train:${body.modelSeqId}`;
      const known = page.models.get(id);
      const config = body.loraConfig ?? { rank: 32, trainAttn: true, trainMlp: true, trainUnembed: true };
      const now = page.clock.now();
      const record = known?.record ?? {
        id,
        baseModel: body.baseModel,
        lora: {
          rank: config.rank,
          alpha: 32,
          seed: engineSeed(config.seed),
          trainAttn: config.trainAttn,
          trainMlp: config.trainMlp,
          trainUnembed: config.trainUnembed,
        },
        step: 0,
        bytes: 0,
        createdAt: now,
        updatedAt: now,
        ...(body.userMetadata && { userMetadata: textValues(body.userMetadata) }),
      };
      const model = known ?? new TrainingModel({ ...page, record, sessionId: session.id, host });
      page.models.set(id, model);
      // seq_ids of a model start at 1, so that its creation is the request before them
      const number = model.submit(0, digestOf("create_model", call.bytes), async () => {
        await model.create();
        page.checkpoints.note(model.record);
        return jsonOutcome({ model_id: id, type: "create_model" });
      });
      return { requestId: page.requests.idOf(number), modelId: id };
    },
    forward: pass as unknown as HandlersOf<"forward">["forward"],
    forwardBackward: pass,
    optimStep: ({ body }, call) => {
      const { adamParams } = body;
      if (adamParams === undefined)
        throw badRequest("bad_request", "adam_params is required: this server's optimizer is AdamW.");
      return submit(call, "optim_step", body, async (model) => {
        const metrics = await model.step(adamParams);
        // JSON cannot represent NaN
        const finite = Object.entries(metrics).filter(([, value]) => Number.isFinite(value));
        return jsonOutcome({ metrics: Object.fromEntries(finite), type: "optim_step" });
      });
    },
    getInfo: ({ body }) => {
      const { record } = liveModel(page, body.modelId);
      return {
        modelId: record.id,
        modelData: { modelName: record.baseModel },
        isLora: true,
        loraRank: record.lora.rank,
        modelName: record.baseModel,
        type: "get_info",
      };
    },
    unloadModel: ({ body }, call) =>
      submit(call, "unload_model", body, async (model) => {
        await model.unload();
        return jsonOutcome({ model_id: body.modelId, type: "unload_model" });
      }),
    saveWeights: ({ body }, call) => {
      const { path, seqId, userMetadata, modelId } = body;
      checkSave("weights", modelId, { ...body, overwrite: true });
      return submit(call, "save_weights", body, async (model) => {
        checkSave("weights", modelId, body);
        const name = path ?? `seq-${seqId ?? page.clock.now()}`;
        const saved = await save(model, { kind: "weights", name, ...omitUndefined({ userMetadata }) });
        return jsonOutcome({ path: saved, type: "save_weights" });
      });
    },
    saveWeightsForSampler: ({ body }, call) => {
      const { path, userMetadata, modelId } = body;
      checkSave("sampler_weights", modelId, { ...body, overwrite: true });
      return submit(
        call,
        "save_weights_for_sampler",
        body,
        async (model) => {
          checkSave("sampler_weights", modelId, body);
          if (path !== undefined) {
            const saved = await save(model, {
              kind: "sampler_weights",
              name: path,
              ...omitUndefined({ userMetadata }),
            });
            return jsonOutcome({ path: saved, type: "save_weights_for_sampler" });
          }
          const id = await saveTransient(page, model, body.samplingSessionSeqId);
          return jsonOutcome({ sampling_session_id: id, type: "save_weights_for_sampler" });
        },
        digestWithout("save_weights_for_sampler", body, ["samplingSessionSeqId"]),
      ); // a retry of the Python client has another
    },
    loadWeights: ({ body }, call) => {
      const { modelId, path, optimizer } = body;
      if (modelId === undefined) {
        throw new Refusal(422, "invalid_request", "model_id: is required in a browser; create the model first");
      }
      return submit(call, "load_weights", { modelId, seqId: body.seqId }, async (model) => {
        const found = page.checkpoints.find(path);
        if (optimizer && found.kind !== "weights") {
          throw badRequest(
            "bad_request",
            `${path} contains sampler weights, which have no optimizer state. Load it without the optimizer.`,
          );
        }
        const { record } = model;
        if (found.baseModel !== record.baseModel) {
          throw badRequest(
            "base_model_mismatch",
            `${path} was trained on ${found.baseModel}, not on ${record.baseModel}.`,
          );
        }
        for (const key of ["rank", "alpha", "trainAttn", "trainMlp", "trainUnembed"] as const) {
          if (found.lora[key] === record.lora[key]) continue;
          throw badRequest(
            "bad_request",
            `${path} has ${key} ${found.lora[key]}, and the model ${modelId} has ${record.lora[key]}.`,
          );
        }
        const state = await page.storage.state(found.stateKey);
        if (state === undefined) throw new Refusal(404, "unknown_checkpoint", `The weights of ${path} were deleted.`);
        await model.load(optimizer ? state : withoutOptimizer(state));
        return jsonOutcome({ path, model_id: modelId, type: "load_weights" });
      });
    },
  };
}

function withoutOptimizer({ optimizer: _, ...state }: AdapterState): AdapterState {
  return { ...state, step: 0 };
}

/** Saves weights without a name: they end with the session. Returns the id of their sampling session. */
async function saveTransient(page: PageState, model: TrainingModel, asked: number | undefined): Promise<string> {
  const { sessionId, record } = model;
  const state = await model.call((engine, adapter) => engine.exportState(adapter));
  let seq = asked ?? 0;
  while (page.samplers.has(`${sessionId}:sample:${seq}`)) seq++;
  const id = `${sessionId}:sample:${seq}`;
  const stateKey = samplerStateKey(id);
  await page.storage.commit({ states: new Map([[stateKey, state]]) });
  const sampler = {
    id,
    sessionId,
    baseModel: record.baseModel,
    modelPath: undefined,
    stateKey,
    isTransient: true,
    samples: new Map(),
  };
  page.samplers.set(id, sampler);
  return id;
}
