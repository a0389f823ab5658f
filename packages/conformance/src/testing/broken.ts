/**
 * Deliberately broken variants of this repository's server: wrappers around its `fetch` that reproduce deviations observed in other
 * servers. Each one breaks a single requirement. Test code only.
 */

import { Datum, ForwardBackwardOutput, type ForwardBackwardRequest, type LossFnInputs, TensorData } from "@tinklet/sdk";
import {
  decodeForwardBackwardOutput,
  decodeForwardBackwardRequest,
  decodeSampleResponse,
  encodeForwardBackwardOutput,
  encodeForwardBackwardRequest,
  encodeSampleResponse,
  protobufContentType,
  SampledSequence,
  SampleResponse,
} from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import type { Wrapper } from "./kit-server.ts";

// biome-ignore lint/suspicious/noExplicitAny: bodies of every route
type Body = any;

const routeOf = (request: Request): string => new URL(request.url).pathname.replace("/api/v1/", "");
const isPlain = (request: Request) => request.headers.get("content-encoding") === null;
const isPass = (request: Request) =>
  routeOf(request) === "forward_backward" &&
  isPlain(request) &&
  (request.headers.get("content-type") ?? "").includes(protobufContentType);

function withBody(request: Request, body: string | Uint8Array): Request {
  const headers = new Headers(request.headers);
  headers.delete("content-length");
  return new Request(request.url, { method: request.method, headers, body: body as BodyInit, signal: request.signal });
}

function jsonResponse(body: unknown, status = 200): Response {
  const text = JSON.stringify(body);
  const length = String(new TextEncoder().encode(text).length);
  return new Response(text, { status, headers: { "content-type": "application/json", "content-length": length } });
}

/** Edits the JSON request bodies of some routes. Other bodies are passed through unparsed, so that 64-bit integers are preserved. */
const editing =
  (routes: readonly string[], edit: (body: Body, request: Request) => Body): Wrapper =>
  async (request, answer) => {
    if (!routes.includes(routeOf(request)) || !(request.headers.get("content-type") ?? "").includes("json")) {
      return answer(request);
    }
    const text = await request.text();
    try {
      return await answer(withBody(request, JSON.stringify(edit(JSON.parse(text), request))));
    } catch (error) {
      if (error instanceof SyntaxError) return answer(withBody(request, text));
      throw error;
    }
  };

/** Edits the requests of training passes. */
const editingPasses =
  (edit: (pass: ForwardBackwardRequest) => ForwardBackwardRequest): Wrapper =>
  async (request, answer) => {
    if (!isPass(request)) return answer(request);
    const bytes = new Uint8Array(await request.arrayBuffer());
    let edited = bytes;
    try {
      edited = new Uint8Array(encodeForwardBackwardRequest(edit(decodeForwardBackwardRequest(bytes))));
    } catch {
      // an invalid body is passed through, so that the server rejects it
    }
    return answer(withBody(request, edited));
  };

/** Edits responses. */
const answering =
  (edit: (response: Response, request: Request) => Promise<Response> | Response): Wrapper =>
  async (request, answer) =>
    edit(await answer(request), request);

const numbered = ["optim_step", "save_weights", "save_weights_for_sampler", "load_weights"];

/** Applies one wrapper inside another. */
const both =
  (outer: Wrapper, inner: Wrapper): Wrapper =>
  (request, answer) =>
    outer(request, (forwarded) => inner(forwarded, answer));

/** Training runs of the REST routes lack `lora_rank`. */
export const runsWithoutRank: Wrapper = answering(async (response, request) => {
  if (!/^training_runs\/[^/]+$/.test(routeOf(request)) || response.status !== 200) return response;
  const { lora_rank: _, ...rest } = (await response.json()) as Body;
  return jsonResponse(rest);
});

/** Results are always JSON. */
export const jsonResults: Wrapper = (request, answer) => {
  if (routeOf(request) !== "retrieve_future") return answer(request);
  const headers = new Headers(request.headers);
  headers.set("accept", "application/json");
  return answer(new Request(request, { headers }));
};

/** Heartbeats of nonexistent sessions succeed. */
export const anySession: Wrapper = answering((response, request) =>
  routeOf(request) === "session_heartbeat" ? jsonResponse({ type: "session_heartbeat" }) : response,
);

/** Requests run in the order of their arrival. */
export function arrivalOrder(): Wrapper {
  const counts = new Map<string, number>();
  const next = (modelId: string) => {
    const count = (counts.get(modelId) ?? 0) + 1;
    counts.set(modelId, count);
    return count;
  };
  return both(
    editing(numbered, (body) => ({ ...body, seq_id: next(body.model_id) })),
    editingPasses((pass) => ({ ...pass, seqId: next(pass.modelId) })),
  );
}

/** A retried request runs again. */
export function runsAgain(): Wrapper {
  const seen = new Set<string>();
  const isRepeated = (modelId: string, seqId: unknown) => {
    const key = `${modelId} ${seqId}`;
    const known = seen.has(key);
    seen.add(key);
    return known;
  };
  return both(
    editing(numbered, ({ seq_id, ...body }) => (isRepeated(body.model_id, seq_id) ? body : { ...body, seq_id })),
    editingPasses((pass) => (isRepeated(pass.modelId, pass.seqId) ? { ...pass, seqId: 0 } : pass)),
  );
}

/** A result can be read only once. */
export function readOnce(): Wrapper {
  const read = new Set<string>();
  return async (request, answer) => {
    if (routeOf(request) !== "retrieve_future") return answer(request);
    const { request_id: id } = (await request.clone().json()) as Body;
    if (read.has(id)) return jsonResponse({ detail: "not found" }, 404);
    const response = await answer(request);
    const isPending =
      (response.headers.get("content-type") ?? "").includes("json") &&
      (await response.clone().text()).includes("try_again");
    if (response.status === 200 && !isPending) read.add(id);
    return response;
  };
}

/** Weights are divided by their sum and by the number of data: means instead of sums. */
export const meanReduction: Wrapper = editingPasses((pass) => {
  const { data } = pass.forwardBackwardInput;
  const scaled = data.map((datum) => {
    const { weights } = datum.lossFnInputs as LossFnInputs;
    if (weights === undefined || weights.sparseCrowIndices !== undefined) return datum;
    const values = Float32Array.from(weights.values, Number);
    const total = values.reduce((sum, value) => sum + value, 0) * data.length;
    const mean = TensorData.from(
      values.map((value) => (total === 0 ? value : value / total)),
      omitUndefined({ shape: weights.shape }),
    );
    return new Datum({ modelInput: datum.modelInput, lossFnInputs: { ...datum.lossFnInputs, weights: mean } });
  });
  return { ...pass, forwardBackwardInput: { ...pass.forwardBackwardInput, data: scaled } };
});

/** Passes return no metrics. */
export const noMetrics: Wrapper = answering(async (response, request) => {
  const isProto = (response.headers.get("content-type") ?? "").includes(protobufContentType);
  if (routeOf(request) !== "retrieve_future" || !isProto) return response;
  const bytes = new Uint8Array(await response.clone().arrayBuffer());
  try {
    const output = decodeForwardBackwardOutput(bytes);
    if (output.lossFnOutputs.length === 0) return response;
    const bare = encodeForwardBackwardOutput(new ForwardBackwardOutput({ ...output, metrics: {} }));
    return new Response(bare as BodyInit, { headers: { "content-type": protobufContentType } });
  } catch {
    return response; // a sample
  }
});

/** All optimizer parameters except the learning rate are ignored. */
export const rateOnly: Wrapper = editing(["optim_step"], (body) => ({
  ...body,
  adam_params: { learning_rate: body.adam_params?.learning_rate ?? 1e-4 },
}));

/** The train_* flags and the seed are ignored. */
export const flagsIgnored: Wrapper = editing(["create_model"], (body) => ({
  ...body,
  lora_config: { rank: body.lora_config?.rank ?? 32 },
}));

/** Resuming restores the weights but not the moments. */
export const lostOptimizer: Wrapper = editing(["load_weights"], (body) => ({ ...body, optimizer: false }));

/** Sampler weights are not snapshots: every sample uses the live model's current weights. */
export function mutableSnapshots(): Wrapper {
  const runOf = new Map<string, string>();
  let unique = 5_000_000;
  return async (request, answer) => {
    const route = routeOf(request);
    if (route === "create_sampling_session") {
      const body = (await request.clone().json()) as Body;
      const response = await answer(request);
      const run = /^tinker:\/\/([^/]+)\//.exec(body.model_path ?? "")?.[1];
      if (run !== undefined && response.status === 200) {
        runOf.set(((await response.clone().json()) as Body).sampling_session_id, run);
      }
      return response;
    }
    // Samples run in sessions that the client does not know, so it must poll for each one separately.
    if (route === "retrieve_futures") return jsonResponse({ detail: "Not Found" }, 404);
    if (route !== "asample") return answer(request);
    const body = (await request.clone().json()) as Body;
    const run = runOf.get(body.sampling_session_id);
    if (run === undefined) return answer(request);
    const post = async (path: string, sent: unknown): Promise<Body> => {
      const url = request.url.replace(/asample$/, path);
      const headers = { "x-api-key": request.headers.get("x-api-key") ?? "", "content-type": "application/json" };
      return (await answer(new Request(url, { method: "POST", headers, body: JSON.stringify(sent) }))).json();
    };
    const saved = await post("save_weights_for_sampler", { model_id: run, sampling_session_seq_id: unique++ });
    const { sampling_session_id } = await post("retrieve_future", { request_id: saved.request_id });
    return answer(withBody(request, JSON.stringify({ ...body, sampling_session_id })));
  };
}

/** The seed is ignored. */
export const seedIgnored: Wrapper = editing(["asample"], (body) => {
  const { seed: _, ...sampling_params } = body.sampling_params ?? {};
  return { ...body, sampling_params };
});

/** top_k and top_p are ignored. */
export const filtersIgnored: Wrapper = editing(["asample"], (body) => {
  const { top_k: _k, top_p: _p, ...sampling_params } = body.sampling_params ?? {};
  return { ...body, sampling_params };
});

/** User errors are returned as server faults. */
export const serverFaults: Wrapper = answering((response) =>
  response.status >= 400 && response.status < 500 ? jsonResponse({ detail: "internal error" }, 500) : response,
);

/** A failed request stays pending forever. */
export const failuresHang: Wrapper = answering(async (response, request) => {
  if (routeOf(request) !== "retrieve_future" || response.status !== 200) return response;
  const body = (response.headers.get("content-type") ?? "").includes("json")
    ? ((await response.clone().json()) as Body)
    : {};
  if (!("error" in body)) return response;
  await new Promise((resolve) => setTimeout(resolve, 50));
  return jsonResponse({ type: "try_again", request_id: "x", queue_state: "active" });
});

/** The cursor never advances, so completions are repeated. */
export const completionsAgain: Wrapper = answering(async (response, request) =>
  routeOf(request) === "retrieve_futures" && response.status === 200
    ? jsonResponse({ ...((await response.json()) as Body), cursor: 0 })
    : response,
);

/** A copy is the source itself. */
export const copiesNothing: Wrapper = async (request, answer) => {
  if (routeOf(request) !== "copy_weights") return answer(request);
  const { source_path } = (await request.clone().json()) as Body;
  return jsonResponse({ tinker_path: source_path });
};

/** gspo without the sequence ratio: each token has its own ratio, without clipping. */
export const tokenRatios: Wrapper = editingPasses((pass) =>
  pass.forwardBackwardInput.lossFn === "gspo"
    ? {
        ...pass,
        forwardBackwardInput: {
          ...pass.forwardBackwardInput,
          lossFn: "importance_sampling",
          data: pass.forwardBackwardInput.data.map(({ modelInput, lossFnInputs }) => {
            const { sequence_ratio_mask: _, ...rest } = lossFnInputs as LossFnInputs;
            return new Datum({ modelInput, lossFnInputs: rest });
          }),
        },
      }
    : pass,
);

/** The scores of a sample are shifted by one position. */
export const scoresShifted: Wrapper = answering(async (response, request) => {
  const isProto = (response.headers.get("content-type") ?? "").includes(protobufContentType);
  if (routeOf(request) !== "retrieve_future" || !isProto) return response;
  const bytes = new Uint8Array(await response.clone().arrayBuffer());
  const turned = <T extends Int32Array | Float32Array | BigInt64Array>(values: T): T => {
    const copy = values.slice() as T;
    copy.set(values.subarray(0, -1) as never, 1);
    copy[0] = values.at(-1) as never;
    return copy;
  };
  const tensor = (tensorData: TensorData | undefined): TensorData | undefined =>
    tensorData && TensorData.ofParts({ ...tensorData, values: turned(tensorData.values as Float32Array) });
  try {
    const sample = decodeSampleResponse(bytes);
    if (sample.sequences.length === 0) return response;
    const edited = new SampleResponse({
      sequences: sample.sequences.map(
        ({ stopReason, tokenArray, logprobArray, topkSampledLogprobs: top }) =>
          new SampledSequence({
            stopReason,
            tokens: tokenArray,
            logprobs: logprobArray,
            topkSampledLogprobs: top && { ...top, tokenIds: turned(top.tokenIds), logprobs: turned(top.logprobs) },
          }),
      ),
      promptLogprobs: sample.promptLogprobArray && turned(sample.promptLogprobArray),
      targetPromptLogprobs: tensor(sample.targetPromptLogprobs),
      promptAltTokens: sample.promptAltTokens && {
        tokens: tensor(sample.promptAltTokens.tokens)!,
        logprobs: tensor(sample.promptAltTokens.logprobs)!,
      },
    });
    return new Response(encodeSampleResponse(edited) as BodyInit, {
      headers: { "content-type": protobufContentType },
    });
  } catch {
    return response; // a pass
  }
});

/** A server of 0.25: newer routes are missing, and unknown fields are ignored. */
export const asOld: Wrapper = (request, answer) => {
  const route = routeOf(request);
  const isNew =
    /^(cancel_future|retrieve_futures|copy_weights|create_custom_loss|join_sampling_session|save_weights_external|sessions\/search)$/.test(
      route,
    ) || /\/(finish|external_weights_urls)$|^auth\/apikey|^billing\/usage\/checkpoints/.test(route);
  if (isNew) return Promise.resolve(jsonResponse({ detail: "Not Found" }, 404));
  const dropping = editing(["asample", "create_model"], ({ optimizer_config: _, ...body }) => {
    if (route === "create_model") return body;
    const known = ["num_samples", "prompt", "sampling_params", "sampling_session_id", "seq_id", "prompt_logprobs"];
    return Object.fromEntries(Object.entries(body).filter(([key]) => known.includes(key)));
  });
  return dropping(request, answer);
};
