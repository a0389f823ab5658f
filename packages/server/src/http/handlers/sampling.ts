/** Handlers of sampling. */
import type { SampleRequest } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { engineSeed } from "../../queue/engine-seed.ts";
import { fingerprintJson } from "../../queue/fingerprint.ts";
import { failureOf, type ResolvedParams } from "../../queue/job.ts";
import { Refusal } from "../../queue/refusal.ts";
import { clientOf } from "../../queue/sampling/finished-samples.ts";
import { targetCells } from "../../queue/sampling/prompt-targets.ts";
import { sampleProblem } from "../../queue/sampling/sample-problem.ts";
import { findReadable, unreadable } from "../../queue/training/checkpoint-jobs.ts";
import { hasFiles } from "../../store/tables/models.ts";
import type { Failure } from "../../store/tables/requests.ts";
import { addSampler, joinSampler, samplerBySeq } from "../../store/tables/sessions.ts";
import { openSession, ownSampler } from "../access/access.ts";
import type { Api, Call, Handlers } from "../api.ts";
import { checkBaseModel, checkNumber } from "./fields.ts";

/** @param isStrict - refuse fields that other servers do not have and would ignore */
export function samplingHandlers(
  api: Api,
  isStrict: boolean,
): Pick<Handlers, "createSamplingSession" | "asample" | "getSampler" | "joinSamplingSession"> {
  const { sql } = api.store.db;

  /** The base model and the adapter of a sampler, or of a sample without one. */
  const source = (call: Call, body: { baseModel?: string | undefined; modelPath?: string | undefined }) => {
    if (body.modelPath !== undefined) {
      const row = findReadable(sql, body.modelPath, [call.caller.tenant], api.clock.now());
      if (body.baseModel !== undefined && body.baseModel !== row.base_model) {
        throw new Refusal(
          400,
          "base_model_mismatch",
          `${body.modelPath} was trained on ${row.base_model}, not on ${body.baseModel}.`,
        );
      }
      return { baseModel: served(row.base_model), filesId: row.files_id };
    }
    if (body.baseModel === undefined) throw new Refusal(422, "invalid_request", "base_model or model_path is required");
    return { baseModel: served(body.baseModel), filesId: undefined };
  };
  const served = (name: string): string => {
    checkBaseModel(api, name);
    return name;
  };

  return {
    createSamplingSession: async ({ body }, call) => {
      const session = openSession(api, call, body.sessionId);
      const seq = body.samplingSessionSeqId;
      checkNumber("sampling_session_seq_id", seq, 0, Number.MAX_SAFE_INTEGER);
      const { baseModel, filesId } = source(call, body);
      const id = `${session.id}:sample:${seq}`;
      await api.store.db.write((tx) => {
        const known = samplerBySeq(tx, session.id, seq);
        if (known === undefined) {
          if (filesId !== undefined && !hasFiles(tx, filesId)) throw unreadable(body.modelPath ?? "");
          addSampler(tx, {
            id,
            session_id: session.id,
            tenant: session.tenant,
            sampler_seq: seq,
            base_model: baseModel,
            model_path: body.modelPath ?? null,
            files_id: filesId ?? null,
            created_at: api.clock.now(),
          });
        } else if (known.base_model !== baseModel || (known.model_path ?? undefined) !== body.modelPath) {
          throw new Refusal(
            422,
            "number_reused",
            `sampling_session_seq_id ${seq} of ${session.id} was used for another sampler.`,
          );
        }
      });
      return { samplingSessionId: id, type: "create_sampling_session" };
    },

    asample: async ({ body }, call) => {
      checkConstraint(body, { isStrict, bytes: call.bytes.byteLength, most: api.limits.chatBytes });
      const sampler = body.samplingSessionId === undefined ? undefined : ownSampler(api, call, body.samplingSessionId);
      if (sampler !== undefined) openSession(api, call, sampler.session_id);
      // refuses a sampler whose checkpoint was deleted or unpublished since
      if (sampler?.model_path != null) findReadable(sql, sampler.model_path, [sampler.tenant], api.clock.now());
      if (body.seqId !== undefined) checkNumber("seq_id", body.seqId, 0, 2n ** 63n - 1n);
      const from =
        sampler === undefined ? source(call, body) : { baseModel: served(sampler.base_model), filesId: undefined };
      const resolvedParams: ResolvedParams = {
        seed: engineSeed(body.samplingParams.seed),
        sequences: Math.max(1, body.numSamples),
        ...(sampler === undefined ? { baseModel: from.baseModel } : {}),
        ...omitUndefined({ filesId: from.filesId }),
        ...omitUndefined({ client: clientOf(body.seqId) || undefined }),
        ...(call.request.headers.get("x-tinklet-stream") === "tokens" ? { stream: true } : {}),
      };
      const failure = checkSample(api, body);
      const { requestId, id } = await api.queue.submitSample(
        {
          tenant: call.caller.tenant,
          sessionId: sampler?.session_id ?? "",
          kind: "sample",
          ...omitUndefined({ samplerId: sampler?.id }),
          ...omitUndefined({ seq: body.seqId }),
          fingerprint: fingerprintJson("sample", call.wire),
          payload: call.bytes,
          payloadType: "json",
          resolvedParams: { ...resolvedParams },
          ...omitUndefined({ filesId: from.filesId }),
          tokens: body.prompt.tokenCount,
          now: api.clock.now(),
          ...omitUndefined({ failure }),
        },
        from.baseModel,
      );
      const sampleSequenceIds = Array.from(
        { length: Math.max(0, Math.min(body.numSamples, api.limits.numSamples)) },
        (_, i) => `seq-${id}-${i}`,
      );
      return { requestId, sampleSequenceIds };
    },

    getSampler: ({ params }, call) => {
      const row = ownSampler(api, call, params.samplerId);
      return {
        samplerId: row.id,
        baseModel: row.base_model,
        ...(row.model_path === null ? {} : { modelPath: row.model_path }),
      };
    },

    joinSamplingSession: async ({ body }, call) => {
      const sampler = ownSampler(api, call, body.samplingSessionId);
      const clientCounter = await api.store.db.write((tx) => joinSampler(tx, sampler.id));
      return { type: "join_sampling_session", clientCounter };
    },
  };
}

/** @throws {@link Refusal} when a constraint is not allowed, or its fields contradict each other */
function checkConstraint(
  { tinkletConstraint: constraint }: SampleRequest,
  { isStrict, bytes, most }: { readonly isStrict: boolean; readonly bytes: number; readonly most: number },
): void {
  if (constraint === undefined) return;
  // the engine's thread parses it, so the limit is that of chats
  if (bytes > most) {
    const problem = `tinklet_constraint: the body of a request with it must have at most ${most} bytes, got ${bytes}`;
    throw new Refusal(413, "body_too_large", problem);
  }
  if (isStrict) {
    const problem = "tinklet_constraint: is not allowed in strict mode, because the official SDK does not have it";
    throw new Refusal(400, "hosted_lacks", problem);
  }
  if ((constraint.schema === undefined) === (constraint.type === "json_schema")) {
    const problem = "tinklet_constraint.schema: is required for json_schema, and not allowed for other types";
    throw new Refusal(422, "invalid_request", problem);
  }
}

/** The first invalid parameter of a decoded sample; reported through its future. */
function checkSample({ limits }: Api, body: SampleRequest): Failure | undefined {
  const problem = sampleProblem(body, limits);
  if (problem !== undefined) return { error: problem, category: "user" };
  try {
    if (body.targetPromptLogprobs !== undefined) {
      targetCells(body.targetPromptLogprobs, body.prompt.tokenCount, limits.topkPromptLogprobs);
    }
  } catch (error) {
    return failureOf(error);
  }
  return undefined;
}
