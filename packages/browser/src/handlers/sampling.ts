/** Handlers of sampling and of the results of all requests. */
import type { TokenEvent } from "@tinklet/engine";
import {
  engineSeed,
  fedToken,
  jsonForm,
  Refusal,
  sampleProblem,
  sampleRequest,
  sampleResult,
  targetCells,
} from "@tinklet/server/portable";
import { protobufContentType } from "@tinklet/wire";
import { bytesAnswer, jsonAnswer, problem } from "../answers.ts";
import { digestOf } from "../digest.ts";
import { isEngineEnd, type ServedEngine } from "../engine-host.ts";
import { UserMessage } from "../failures.ts";
import { hostOf, openSession, type PageSampler, type PageState, samplerOf } from "../page.ts";
import type { HandlersOf } from "./handler.ts";

type SamplingOperation =
  | "createSamplingSession"
  | "asample"
  | "getSampler"
  | "retrieveFuture"
  | "cancelFuture"
  | "sampleTokens";

/** As a Tinklet server's. */
const limits = { numSamples: 256, topkPromptLogprobs: 64 };

export function samplingHandlers(page: PageState): HandlersOf<SamplingOperation> {
  /** The base model and the stored weights that a request names. */
  const source = ({
    baseModel,
    modelPath,
  }: {
    readonly baseModel?: string | undefined;
    readonly modelPath?: string | undefined;
  }): Pick<PageSampler, "baseModel" | "stateKey"> => {
    if (modelPath === undefined) {
      if (baseModel === undefined) throw new Refusal(422, "invalid_request", "base_model or model_path is required");
      return { baseModel: hostOf(page, baseModel).name, stateKey: undefined };
    }
    const found = page.checkpoints.find(modelPath);
    if (baseModel !== undefined && baseModel !== found.baseModel) {
      const message = `${modelPath} was trained on ${found.baseModel}, not on ${baseModel}.`;
      throw new Refusal(400, "base_model_mismatch", message);
    }
    return { baseModel: hostOf(page, found.baseModel).name, stateKey: found.stateKey };
  };

  const accepted = (number: number, numSamples: number) => ({
    requestId: page.requests.idOf(number),
    sampleSequenceIds: Array.from(
      { length: Math.max(0, Math.min(numSamples, limits.numSamples)) },
      (_, i) => `seq-${number}-${i}`,
    ),
  });

  return {
    createSamplingSession: ({ body }) => {
      const session = openSession(page, body.sessionId);
      const { baseModel, stateKey } = source(body);
      const id = `${session.id}:sample:${body.samplingSessionSeqId}`;
      const known = page.samplers.get(id);
      if (known !== undefined && (known.baseModel !== baseModel || known.modelPath !== body.modelPath)) {
        const message = `sampling_session_seq_id ${body.samplingSessionSeqId} of ${session.id} was used for another sampler.`;
        throw new Refusal(422, "number_reused", message);
      }
      const { modelPath } = body;
      if (known === undefined) {
        const sampler = { id, sessionId: session.id, baseModel, modelPath, stateKey, isTransient: false };
        page.samplers.set(id, { ...sampler, samples: new Map() });
      }
      return { samplingSessionId: id, type: "create_sampling_session" };
    },
    asample: ({ body }, call) => {
      const sampler = body.samplingSessionId === undefined ? undefined : samplerOf(page, body.samplingSessionId);
      if (sampler !== undefined) openSession(page, sampler.sessionId);
      if (sampler?.modelPath !== undefined) page.checkpoints.find(sampler.modelPath); // refuses deleted weights
      const { baseModel, stateKey } = sampler ?? source(body);
      const digest = digestOf("sample", call.bytes);
      const known = body.seqId === undefined ? undefined : sampler?.samples.get(body.seqId);
      if (known !== undefined) {
        if (known.digest === digest) return accepted(known.number, body.numSamples);
        const message = `seq_id ${body.seqId} of ${sampler?.id} was used for another sample.`;
        throw new Refusal(422, "number_reused", message);
      }
      const seed = engineSeed(body.samplingParams.seed);
      const stop = new AbortController();
      const number = page.requests.accept(sampler?.sessionId ?? "", (reason) => stop.abort(reason));
      if (body.seqId !== undefined) sampler?.samples.set(body.seqId, { digest, number });
      const { feeds } = page.requests;
      const streams = call.headers.get("x-tinklet-stream") === "tokens";
      if (streams) feeds.open(number);
      const run = async (adapter: string | undefined, engine: ServedEngine) => {
        const onToken = (event: TokenEvent): void => feeds.add(number, fedToken(event));
        const request = sampleRequest(body, adapter, seed);
        const result = await engine.sample(request, { signal: stop.signal, ...(streams ? { onToken } : {}) });
        return { body: sampleResult(body, result), type: "proto" } as const;
      };
      void page.requests.run(number, async () => {
        const broken = sampleProblem(body, limits);
        if (broken !== undefined) throw new UserMessage(broken);
        if (body.targetPromptLogprobs !== undefined) {
          targetCells(body.targetPromptLogprobs, body.prompt.tokenCount, limits.topkPromptLogprobs);
        }
        const host = hostOf(page, baseModel);
        const opened = await host.opened();
        try {
          return await (stateKey === undefined
            ? run(undefined, opened.engine)
            : page.snapshots.use(stateKey, opened, (id) => run(id, opened.engine)));
        } catch (error) {
          if (isEngineEnd(error)) await host.lost(opened);
          throw error;
        }
      });
      return accepted(number, body.numSamples);
    },
    getSampler: ({ params }) => {
      const { id, baseModel, modelPath } = samplerOf(page, params.samplerId);
      return { samplerId: id, baseModel, ...(modelPath === undefined ? {} : { modelPath }) };
    },
    retrieveFuture: async ({ body }, call) => {
      const found = await page.requests.poll(page.requests.numberOf(body.requestId), call.signal);
      switch (found.kind) {
        case "pending":
          return jsonAnswer({ type: "try_again", request_id: body.requestId, queue_state: "active" });
        case "expired":
          return problem({
            status: 410,
            code: "result_expired",
            detail: `The result of request ${body.requestId} has expired.`,
          });
        case "done": {
          if (found.type === "json") return bytesAnswer(found.body, "application/json");
          const accept = call.headers.get("accept") ?? "";
          if (accept.includes(protobufContentType)) return bytesAnswer(found.body, protobufContentType);
          return jsonAnswer(jsonForm(found.body, call.headers.get("x-tinker-request-type")));
        }
        default:
          return found satisfies never;
      }
    },
    cancelFuture: ({ body }) => {
      const number = page.requests.numberOf(body.requestId);
      page.requests.cancel(number, new UserMessage("The sample was cancelled by its client."));
      return undefined;
    },
    sampleTokens: async ({ params, query }, call) => {
      const found = await page.requests.tokens(page.requests.numberOf(params.requestId), query.after, call.signal);
      if (found === undefined) {
        throw new Refusal(404, "no_feed", `The tokens of request ${params.requestId} are not streamed.`);
      }
      return jsonAnswer(found);
    },
  };
}
