/** Handlers of accepted requests: results, tokens of running samples, cancellation. */
import { protobufContentType } from "@tinklet/wire";
import type { Timing } from "../../queue/futures.ts";
import { ownSampler, unknownRequest } from "../access/access.ts";
import { bytesAnswer, jsonAnswer, problem } from "../answers.ts";
import type { Api, Handlers } from "../api.ts";
import { jsonForm } from "../json-form.ts";
import { checkNumber } from "./fields.ts";

export function futuresHandlers(
  api: Api,
): Pick<Handlers, "retrieveFuture" | "retrieveFutures" | "cancelFuture" | "sampleTokens"> {
  return {
    retrieveFuture: async ({ body }, call) => {
      const found = await api.queue.retrieve(body.requestId, call.caller.tenant, call.request.signal);
      switch (found.kind) {
        case "closing":
          return problem(503, "shutting_down", "The server is shutting down; it keeps the request.", 1);
        case "pending":
          return jsonAnswer({
            type: "try_again",
            request_id: body.requestId,
            queue_state: found.queueState,
            queue_state_reason: found.reason,
          });
        case "done": {
          const headers = timingHeader(found.timing);
          if (found.type === "json") return bytesAnswer(found.body, "application/json", 200, headers);
          const accept = call.request.headers.get("accept") ?? "";
          if (accept.includes(protobufContentType)) return bytesAnswer(found.body, protobufContentType, 200, headers);
          return jsonAnswer(jsonForm(found.body, call.request.headers.get("x-tinker-request-type")), 200, headers);
        }
        case "expired":
          return problem(410, "result_expired", `The result of request ${body.requestId} has expired.`);
        case "unknown":
          throw unknownRequest(body.requestId);
        default:
          return found satisfies never;
      }
    },

    retrieveFutures: async ({ body }, call) => {
      const { samplingSessionId, clonedSamplerId } = body.target;
      const { id: samplerId } = ownSampler(api, call, samplingSessionId);
      checkNumber("target.cloned_sampler_id", clonedSamplerId, 0, Number.MAX_SAFE_INTEGER);
      const { tenant } = call.caller;
      const query = {
        tenant,
        target: { samplerId, client: clonedSamplerId },
        after: body.prevCursor,
        timeoutMs: Math.min(Math.max(0, (body.timeout ?? Number.POSITIVE_INFINITY) * 1000), api.limits.pollMs),
        signal: call.request.signal,
      };
      const { completions, cursor } = await api.queue.completions(query, body.retrievedRequestIds);
      return {
        completions: completions.map(({ id, state, bytes }) => {
          const requestId = api.queue.requestIdOf(id, tenant);
          if (state === "failed") return { state: "failed", requestId };
          return { state: "finished", requestId, responsePayloadUncompressedSize: bytes };
        }),
        cursor,
      };
    },

    cancelFuture: ({ body }, call) => {
      if (!api.queue.cancel(body.requestId, call.caller.tenant)) throw unknownRequest(body.requestId);
      return undefined;
    },

    sampleTokens: async ({ params, query }, call) => {
      checkNumber("after", query.after, 0, Number.MAX_SAFE_INTEGER);
      const found = await api.queue.tokens(params.requestId, call.caller.tenant, query.after, call.request.signal);
      if (found === undefined) throw unknownRequest(params.requestId);
      return jsonAnswer(found);
    },
  };
}

/** The times are a header and not in the result's metrics, because two runs of a request must give the same bytes. */
function timingHeader(timing: Timing | undefined): Record<string, string> {
  if (timing === undefined) return {};
  const { queueMs, computeMs, cachedTokens } = timing;
  const cache = cachedTokens === undefined ? "" : `, cache;desc="${cachedTokens} prompt tokens"`;
  return { "server-timing": `queue;dur=${queueMs}, compute;dur=${computeMs}${cache}` };
}
