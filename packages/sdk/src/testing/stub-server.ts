/**
 * A scripted Tinker server for tests: uses the real codec on every route, executes requests by sequence number, records them, and
 * fails as a script defines. Reached in process through {@link StubServer.fetch}, or over real sockets
 * through `listen` of `stub-listener.node.ts`.
 */

import {
  contract,
  decodeForwardBackwardRequest,
  decompressZstd,
  encodeBase64,
  encodeForwardBackwardOutput,
  encodeSampleResponse,
  type ForwardBackwardRequest,
  type FutureResultName,
  type FuturesRetrieveRequest,
  type Message,
  matchRoute,
  type Operation,
  parseJson,
  protobufContentType,
  type SampleRequest,
  stringifyJson,
} from "@tinklet/wire";
import { type Clock, systemClock } from "@tinklet/wire/clock";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import type { FetchLike } from "../transport/exchange.ts";
import type { Fault, FaultScript, StubCall } from "./faults.ts";
import { json, type StubAnswer } from "./stub-answer.ts";
import { OrderedModel, stubPass, stubSample } from "./stub-model.ts";
import { restAnswers } from "./stub-rest.ts";

/** A request as it arrives. */
export interface StubRequest {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** How a {@link StubServer} behaves. */
export interface StubOptions {
  /** Clock of its delays. @defaultValue the system clock */
  readonly clock?: Clock;
  /** Flags of `client/config`, as on the wire. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Flags of `client/dynamic_config`, as on the wire. */
  readonly dynamicConfig?: Readonly<Record<string, unknown>>;
  /** Script of faults. @defaultValue no faults */
  readonly faults?: FaultScript;
  /** Called with every request as it arrives, for recordings. */
  readonly onRequest?: (request: StubRequest) => void;
  /** Number of pending responses per future before its result. @defaultValue 0 */
  readonly pendingPolls?: number;
  /** Milliseconds that a poll of an unfinished future is held before "try again". @defaultValue 20000 */
  readonly holdMs?: number;
  /** Duration of a sample in milliseconds; polls are held meanwhile. @defaultValue 0 */
  readonly sampleMs?: number;
  /** Results above this size are announced first. @defaultValue never */
  readonly metadataAboveBytes?: number;
}

/** The result of a future. */
interface Result {
  readonly type: FutureResultName;
  readonly body: Uint8Array | object | undefined;
  readonly done: Promise<void>;
  polls: number;
}

/** Fingerprint of a refused request; equal to no real one. */
const refused = "refused";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const utf8 = new TextEncoder();
const text = new TextDecoder();

/**
 * A server of the whole API that does not compute: its results are functions of the requests, so that tests detect lost, repeated or
 * reordered requests. Serves a client without a socket through {@link StubServer.fetch}, or over one through {@link listen}.
 *
 * @example
 * ```ts
 * import { ServiceClient } from "tinklet";
 * import { StubServer } from "tinklet/testing";
 *
 * const stub = new StubServer();
 * const service = new ServiceClient({ apiKey: "tml-test", baseUrl: "http://stub", fetch: stub.fetch });
 * const trainer = await service.createLoraTrainingClient({ baseModel: "stub/model", rank: 8 });
 * await trainer.optimStep({ learningRate: 1e-4 });
 * console.log(stub.callsOf("optimStep").length); // 1
 * ```
 */
export class StubServer {
  /** Every decoded request, in order of arrival. */
  readonly calls: StubCall[] = [];
  /** Requests applied to each model, by its id. */
  readonly models = new Map<string, OrderedModel>();
  /** Number of requests repeated under the same sequence number with different content, except forward passes, which change nothing. */
  conflicts = 0;
  /** Number of requests repeated under the same sequence number with the same content. */
  repeats = 0;
  /** Clock of its delays. */
  readonly clock: Clock;
  readonly #options: StubOptions;
  readonly #results = new Map<string, Result>();
  readonly #numbered = new Map<string, { requestId: string; content: string }>();
  #sessions = 0;
  #nextRequest = 0;
  #joined = 0;
  /** Completed samples by session and client, in order. */
  readonly #over = new Map<string, string[]>();
  readonly #sampleWaiters = new Set<() => void>();

  constructor(options: StubOptions = {}) {
    this.#options = options;
    this.clock = options.clock ?? systemClock();
  }

  /** The requests of one operation. */
  callsOf(operation: Operation): StubCall[] {
    return this.calls.filter((call) => call.operation === operation);
  }

  /** Requests applied to a model. */
  applied(modelId = "session-1:train:0"): OrderedModel["applied"] {
    return this.models.get(modelId)?.applied ?? [];
  }

  /** The server as a `fetch`, without a socket. */
  get fetch(): FetchLike {
    return async (url, init) => {
      const { pathname, search } = new URL(url);
      const body = init.body;
      const answer = await this.handle({
        method: init.method ?? "GET",
        path: pathname + search,
        headers: Object.fromEntries(new Headers(init.headers)),
        body: typeof body === "string" ? utf8.encode(body) : ((body as Uint8Array | undefined) ?? new Uint8Array(0)),
      });
      return deliver(answer, this.clock, init.signal ?? undefined);
    };
  }

  /** The response to one request, including faults. */
  async handle(request: StubRequest): Promise<StubAnswer> {
    this.#options.onRequest?.(request);
    const { pathname } = new URL(request.path, "http://stub");
    const match = matchRoute(request.method, pathname.slice(Math.max(pathname.indexOf("/api/v1"), 0)));
    if (match === undefined) return json(404, { detail: `no route ${request.method} ${pathname}` });
    const { operation, params } = match;
    let body: unknown;
    try {
      body = await decodeBody(operation, request);
    } catch (error) {
      if (error instanceof InvalidInputError || error instanceof ResponseValidationError) {
        return json(422, { detail: error.message });
      }
      throw error;
    }
    const call: StubCall = { index: this.calls.length, operation, path: request.path, headers: request.headers, body };
    this.calls.push(call);
    const fault = this.#options.faults?.(call);
    if (fault === undefined) return this.#execute(call, params);
    return this.#spoil(call, params, fault);
  }

  async #spoil(call: StubCall, params: Readonly<Record<string, string>>, fault: Fault): Promise<StubAnswer> {
    switch (fault.kind) {
      case "status": {
        if (fault.executed === true) await this.#execute(call, params);
        else this.#refuse(call, fault.status);
        const body = fault.body === undefined ? new Uint8Array(0) : utf8.encode(stringifyJson(fault.body));
        const type: Record<string, string> = fault.body === undefined ? {} : { "content-type": "application/json" };
        return { status: fault.status, headers: { ...type, ...fault.headers }, body, delivery: "whole" };
      }
      case "delivery": {
        if (fault.executed === false || fault.delivery === "reset") {
          if (fault.executed === true) await this.#execute(call, params);
          return { ...json(200, {}), delivery: fault.delivery };
        }
        return { ...(await this.#execute(call, params)), delivery: fault.delivery };
      }
      case "truncated": {
        const answer = await this.#execute(call, params);
        return { ...answer, body: answer.body.slice(0, Math.floor(answer.body.length / 2)) };
      }
      case "oversized": {
        const answer = await this.#execute(call, params);
        const body = new Uint8Array(answer.body.length + fault.bytes).fill(32);
        body.set(answer.body);
        return { ...answer, body };
      }
      case "content_type": {
        const answer = await this.#execute(call, params);
        return { ...answer, headers: { ...answer.headers, "content-type": fault.contentType } };
      }
    }
  }

  /** A definite refusal uses up the sequence number, as on servers of this API. */
  #refuse({ body }: StubCall, status: number): void {
    if (status < 400 || status >= 500 || [408, 409, 429].includes(status)) return;
    const { modelId, seqId } = (body ?? {}) as { modelId?: string; seqId?: number };
    if (modelId === undefined || seqId === undefined) return;
    // If the request was acknowledged before, only the acknowledgement is refused, not the work.
    const key = `${modelId} ${seqId}`;
    if (this.#numbered.has(key)) return;
    this.#numbered.set(key, { requestId: "", content: refused });
    this.#model(modelId).refuse(seqId);
  }

  #model(modelId: string): OrderedModel {
    const known = this.models.get(modelId) ?? new OrderedModel(this.clock);
    this.models.set(modelId, known);
    return known;
  }

  async #execute(call: StubCall, params: Readonly<Record<string, string>>): Promise<StubAnswer> {
    const { operation } = call;
    const body = call.body as Record<string, unknown>;
    switch (operation) {
      case "clientConfig":
        return json(200, { use_pyqwest_transport: false, ...this.#options.config });
      case "clientDynamicConfig":
        return json(200, { refresh_interval_sec: 300, ...this.#options.dynamicConfig });
      case "authToken":
        return json(200, { jwt: stubToken(this.clock.now() / 1000 + 3600) });
      case "createSession":
        return json(200, { session_id: `session-${++this.#sessions}`, type: "create_session" });
      case "sessionHeartbeat":
        return json(200, { type: "session_heartbeat" });
      case "telemetry":
        return json(200, { status: "accepted" });
      case "createSamplingSession":
        return json(200, {
          sampling_session_id: `${body["sessionId"]}:sample:${body["samplingSessionSeqId"]}`,
          type: "create_sampling_session",
        });
      case "createModel":
      case "unloadModel":
        return this.#accept(operation === "createModel" ? "CreateModel" : "UnloadModel", {
          model_id: body["modelId"] ?? `${body["sessionId"]}:train:${body["modelSeqId"]}`,
        });
      case "forwardBackward": {
        const { forwardBackwardInput, forwardOnly } = call.body as ForwardBackwardRequest;
        const type = forwardOnly === true ? "Forward" : "ForwardBackward";
        return this.#ordered(call, type, () => encodeForwardBackwardOutput(stubPass(forwardBackwardInput)));
      }
      case "optimStep":
        return this.#ordered(call, "OptimStep", () => ({ metrics: { "unclipped_grad_l2:mean": 0.5 } }));
      case "saveWeights":
        return this.#ordered(call, "SaveWeights", () => ({
          path: `tinker://${body["modelId"]}/weights/${body["path"]}`,
        }));
      case "saveWeightsForSampler":
        return this.#ordered(call, "SaveWeightsForSampler", () =>
          body["path"] === undefined
            ? { sampling_session_id: `session-1:sample:${body["samplingSessionSeqId"]}` }
            : { path: `tinker://${body["modelId"]}/sampler_weights/${body["path"]}` },
        );
      case "saveWeightsExternal":
        return this.#ordered(call, "SaveWeightsExternal", () => ({
          path: `tinker://${body["modelId"]}/external_weights/${body["path"]}`,
          size_bytes: 3,
        }));
      case "loadWeights":
        if (body["modelId"] !== undefined) return this.#ordered(call, "LoadWeights", () => ({ path: body["path"] }));
        return this.#accept("LoadWeights", { path: body["path"] });
      case "createCustomLoss":
        return this.#accept("CreateCustomLoss", {
          loss_id: `${body["sessionId"]}:loss:${body["customLossSeqId"]}`,
          type: "create_custom_loss",
        });
      case "asample":
        return this.#sample(call.body as SampleRequest);
      case "retrieveFutures":
        return this.#completions(call.body as FuturesRetrieveRequest);
      case "joinSamplingSession":
        return json(200, { type: "join_sampling_session", client_counter: ++this.#joined });
      case "retrieveFuture":
        return this.#retrieve(body as { requestId: string; allowMetadataOnly: boolean });
      default:
        return restAnswers(operation, params, call);
    }
  }

  /** Accepts a request without a sequence number. */
  #accept(type: FutureResultName, result: object, requestId = this.#newRequest()): StubAnswer {
    this.#results.set(requestId, { type, body: result, done: Promise.resolve(), polls: 0 });
    return json(200, { request_id: requestId });
  }

  #newRequest(): string {
    return `request-${this.#nextRequest++}`;
  }

  /** Accepts a numbered request: a repetition gets the same response, another request under its number is refused. */
  #ordered({ body }: StubCall, type: FutureResultName, run: () => Uint8Array | object): StubAnswer {
    const { modelId, seqId } = body as { modelId: string; seqId: number };
    const key = `${modelId} ${seqId}`;
    const content = fingerprint(type, body);
    const known = this.#numbered.get(key);
    if (known !== undefined) {
      if (known.content !== content) {
        if (known.content !== refused && type !== "Forward") this.conflicts++;
        return json(422, { detail: `${key} is taken by another request` });
      }
      this.repeats++;
      return json(200, { request_id: known.requestId });
    }
    if (seqId < this.#model(modelId).next) return json(422, { detail: `${key} came too late and was skipped` });
    const requestId = this.#newRequest();
    this.#numbered.set(key, { requestId, content });
    let finish: () => void = () => {};
    const done = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const result: Mutable<Result> = { type, body: undefined, done, polls: 0 };
    this.#results.set(requestId, result);
    this.#model(modelId).submit(seqId, { kind: type, forwardOnly: type === "Forward", body }, () => {
      result.body = run();
      finish();
    });
    return json(200, { request_id: requestId });
  }

  #sample(request: SampleRequest): StubAnswer {
    const key = `${request.samplingSessionId} ${request.seqId}`;
    const known = request.samplingSessionId === undefined ? undefined : this.#numbered.get(key);
    if (known !== undefined) {
      this.repeats++;
      return json(200, { request_id: known.requestId });
    }
    const requestId = this.#newRequest();
    this.#numbered.set(key, { requestId, content: "" });
    const body = encodeSampleResponse(stubSample(request));
    const client = `${request.samplingSessionId} ${BigInt(request.seqId ?? 0) / 1_000_000_000n}`;
    const over = this.#over.get(client) ?? [];
    this.#over.set(client, over);
    const sequenceIds = Array.from({ length: request.numSamples }, (_, i) => `${requestId}:${i}`);
    const acknowledged = json(200, { request_id: requestId, sample_sequence_ids: sequenceIds });
    if (this.#options.sampleMs === undefined) {
      over.push(requestId);
      this.#accept("Sample", body, requestId);
      return acknowledged;
    }
    const result: Mutable<Result> = {
      type: "Sample",
      body: undefined,
      done: this.clock.sleep(this.#options.sampleMs),
      polls: 0,
    };
    result.done = result.done.then(() => {
      result.body ??= body;
      over.push(requestId);
      for (const wake of this.#sampleWaiters) wake();
    });
    this.#results.set(requestId, result);
    return acknowledged;
  }

  /** Completed samples of a client; held until there is one, or for `holdMs`. */
  async #completions({ target, prevCursor, timeout }: FuturesRetrieveRequest): Promise<StubAnswer> {
    const { samplingSessionId, clonedSamplerId } = target;
    const own = () => this.#over.get(`${samplingSessionId} ${clonedSamplerId}`) ?? [];
    const until = this.clock.monotonic() + (timeout === undefined ? (this.#options.holdMs ?? 20_000) : timeout * 1000);
    while (own().length <= prevCursor && this.clock.monotonic() < until) {
      let wake = () => {};
      const another = new Promise<void>((resolve) => {
        wake = resolve;
        this.#sampleWaiters.add(resolve);
      });
      await Promise.race([another, this.clock.sleep(until - this.clock.monotonic())]);
      this.#sampleWaiters.delete(wake);
    }
    const completions = own()
      .slice(prevCursor)
      .map((requestId) => {
        const body = this.#results.get(requestId)?.body;
        return {
          state: body instanceof Uint8Array ? "finished" : "failed",
          request_id: requestId,
          ...(body instanceof Uint8Array ? { response_payload_uncompressed_size: body.byteLength } : {}),
        };
      });
    return json(200, { completions, cursor: own().length });
  }

  async #retrieve({
    requestId,
    allowMetadataOnly,
  }: {
    requestId: string;
    allowMetadataOnly: boolean;
  }): Promise<StubAnswer> {
    const result = this.#results.get(requestId);
    if (result === undefined) return json(404, { detail: `no future ${requestId}` });
    const pending = { type: "try_again", request_id: requestId, queue_state: "active" };
    if (result.polls++ < (this.#options.pendingPolls ?? 0)) return json(200, pending);
    if (result.body === undefined) {
      await Promise.race([result.done, this.clock.sleep(this.#options.holdMs ?? 20_000)]);
      if (result.body === undefined) return json(200, pending);
    }
    const body = result.body as Uint8Array | object;
    if (!(body instanceof Uint8Array)) return json(200, body);
    const limit = this.#options.metadataAboveBytes ?? Infinity;
    if (allowMetadataOnly && body.byteLength > limit) {
      return json(200, { status: "complete_metadata", response_payload_size: body.byteLength });
    }
    return { status: 200, headers: { "content-type": protobufContentType }, body, delivery: "whole" };
  }

  /** Makes a future fail. */
  fail(requestId: string, error: string, category: string): void {
    this.answer(requestId, { error, category });
  }

  /** Makes a future return this JSON. */
  answer(requestId: string, body: object): void {
    const type = this.#results.get(requestId)?.type ?? "OptimStep";
    this.#results.set(requestId, { type, body, done: Promise.resolve(), polls: 0 });
  }

  /** Removes a future; polls of it get a 404. */
  forget(requestId: string): void {
    this.#results.delete(requestId);
  }
}

async function decodeBody(operation: Operation, { headers, body }: StubRequest): Promise<unknown> {
  const schema = contract[operation].body as Message<unknown> | { readonly contentType: string } | undefined;
  if (schema === undefined) return undefined;
  const plain = headers["content-encoding"] === "zstd" ? await decompressZstd(body, { maxBytes: 1 << 30 }) : body;
  if ("contentType" in schema) return decodeForwardBackwardRequest(plain);
  return schema.decode(parseJson(text.decode(plain)));
}

/** Fingerprint of a request's content; the number of an ephemeral sampling session may change on a retry. */
function fingerprint(type: string, body: unknown): string {
  const { samplingSessionSeqId: _, ...rest } = body as Record<string, unknown>;
  return `${type} ${JSON.stringify(rest, (_key, value: unknown) => (typeof value === "bigint" ? String(value) : value))}`;
}

/** A token with an expiry (seconds since the epoch). */
export function stubToken(expires: number, claims: Readonly<Record<string, unknown>> = {}): string {
  const part = (value: unknown) =>
    encodeBase64(utf8.encode(JSON.stringify(value)))
      .replaceAll("=", "")
      .replaceAll("+", "-")
      .replaceAll("/", "_");
  return `${part({ alg: "none" })}.${part({ sub: "urn:user:1", email: "a@b.example", exp: expires, ...claims })}.sig`;
}

/** Converts a response to the outcome of `fetch`: a response, a rejection, or a promise that never settles. */
async function deliver(answer: StubAnswer, clock: Clock, signal?: AbortSignal): Promise<Response> {
  const never = new Promise<never>((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  never.catch(() => {});
  const broken = () =>
    new TypeError("fetch failed", { cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }) });
  const { status, body, delivery } = answer;
  const headers = new Headers(answer.headers);
  const empty = status === 204 || status === 304;
  if (!empty) headers.set("content-length", String(body.length));
  const half = body.slice(0, Math.ceil(body.length / 2));
  switch (delivery) {
    case "whole":
      return new Response(empty ? null : (body as BodyInit), { status, headers });
    case "reset":
      throw broken();
    case "stall":
      return never;
    case "reset_mid_body":
    case "stall_mid_body": {
      let sent = false;
      const stream = new ReadableStream<Uint8Array>({
        pull: async (controller) => {
          if (!sent) {
            sent = true;
            return controller.enqueue(half);
          }
          if (delivery === "reset_mid_body") controller.error(broken());
          else await never.catch(() => {});
        },
      });
      return new Response(stream, { status, headers });
    }
    case "slow_loris": {
      let at = 0;
      const stream = new ReadableStream<Uint8Array>({
        pull: async (controller) => {
          if (signal?.aborted || at === body.length) return controller.close();
          controller.enqueue(body.slice(at, ++at));
          await clock.sleep(1_000, signal).catch(() => {});
        },
      });
      return new Response(stream, { status, headers });
    }
  }
}
