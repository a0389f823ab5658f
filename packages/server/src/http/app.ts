/**
 * The server as one function, `fetch(Request) → Response`: who asks, within what bounds, which route, and what an error looks
 * like from outside. No error that a client can cause is a 5xx.
 */
import { contract, type Message, matchRoute, type Operation, protobufContentType, unknownFields } from "tinklet/wire";
import { failureOf, UserError } from "../queue/job.ts";
import { Refusal } from "../queue/refusal.ts";
import type { RequestKind } from "../store/requests.ts";
import { ownModel } from "./access.ts";
import { bytesAnswer, errorAnswer, jsonAnswer, problem } from "./answers.ts";
import type { Api, Call, Handlers } from "./api.ts";
import { BodyBudget, type BodyHold, readBody, readJson } from "./body.ts";
import { download } from "./downloads.ts";
import { customLossHandlers } from "./handlers/custom-loss.ts";
import { newerHandlers } from "./handlers/newer.ts";
import { restHandlers } from "./handlers/rest.ts";
import { samplingHandlers } from "./handlers/sampling.ts";
import { serviceHandlers } from "./handlers/service.ts";
import { peekJson, trainingHandlers } from "./handlers/training.ts";
import { checkHost } from "./hosts.ts";
import type { Metrics } from "./metrics.ts";
import { matchNewerRoute } from "./newer-routes.ts";

export interface AppOptions {
  readonly api: Api;
  readonly metrics: Metrics;
  /** Host names besides `localhost` and addresses. */
  readonly allowedHosts: readonly string[];
  /** Whether `healthz` and `/metrics` answer without a key. */
  readonly openProbes: boolean;
  /** Whether the engines are ready, and why not. */
  readonly health: () => { readonly ready: boolean; readonly reason?: string };
  /** Current values for `/metrics`. */
  readonly gauges: () => Promise<Readonly<Record<string, number>>>;
}

/** The contract's checkpoint routes know two kinds; newer clients use them for a third. */
function matchCheckpoint(method: string, path: string): ReturnType<typeof matchRoute> {
  const match = matchRoute(method, path);
  const external = "/checkpoints/external_weights/";
  if (match !== undefined || !path.includes(external)) return match;
  const like = matchRoute(method, path.replace(external, "/checkpoints/weights/"));
  const id = like?.params["checkpointId"];
  if (like === undefined || id === undefined) return undefined;
  return { ...like, params: { ...like.params, checkpointId: id.replace(/^weights/, "external_weights") } };
}

/** The requests whose number is used up when they are refused. */
const consuming: Partial<Record<Operation, RequestKind>> = {
  optimStep: "optim_step",
  saveWeights: "save_weights",
  saveWeightsForSampler: "save_weights_for_sampler",
  loadWeights: "load_weights",
};

export function createApp(options: AppOptions): (request: Request) => Promise<Response> {
  const { api, metrics } = options;
  const handlers: Handlers = {
    ...serviceHandlers(api),
    ...trainingHandlers(api),
    ...samplingHandlers(api),
    ...restHandlers(api),
    ...customLossHandlers(api),
  };
  const newer = newerHandlers(api);
  const told = new Set<string>();
  const bodies = new BodyBudget(api.limits.bodiesBytes);
  let inFlight = 0;

  /** Fields that this version does not know are tolerated, and worth one line each. */
  const noteUnknown = (operation: Operation, wire: unknown) => {
    const schema = (contract[operation] as { body?: unknown }).body;
    if (schema === undefined || operation === "forwardBackward" || told.size > 1000) return;
    for (const name of unknownFields(schema as Message<never, never>, wire)) {
      const key = `${operation}.${name.slice(0, 100)}`;
      if (told.has(key)) continue;
      told.add(key);
      api.log.info("request.unknown_field", { operation, field: name.slice(0, 100) });
    }
  };

  /** A refused request of a model uses its number up, so that nothing behind it waits. */
  const consume = async (operation: Operation, call: Call, error: unknown): Promise<void> => {
    const kind = consuming[operation];
    const at = kind === undefined ? undefined : peekJson(call.wire);
    const transient = error instanceof Refusal && (error.status === 429 || error.code === "number_reused");
    if (kind === undefined || at === undefined || transient || errorAnswer(error)?.status === 503) return;
    const model = ownModel(api, call, at.modelId);
    await api.queue.submitTraining(
      {
        tenant: call.caller.tenant,
        sessionId: model.session_id,
        kind,
        modelId: model.id,
        seq: at.seqId,
        fingerprint: `refused ${kind}`,
        payload: new Uint8Array(0),
        payloadType: "json",
        tokens: 0,
        now: api.clock.now(),
        failure: failureOf(error instanceof Refusal ? new UserError(error.message) : error),
      },
      model,
    );
  };

  const run = async (operation: Operation, params: Readonly<Record<string, string>>, call: Call): Promise<Response> => {
    if (operation === "forwardBackward") return pass(call, "json");
    const { query, body, response } = contract[operation] as {
      query?: Message<object>;
      body?: Message<object>;
      response?: Message<object>;
    };
    try {
      const received = {
        params,
        query: query?.decode(Object.fromEntries(call.url.searchParams)),
        body: body?.decode(call.wire),
      };
      noteUnknown(operation, call.wire);
      const answer = await (handlers[operation as keyof Handlers] as (r: unknown, c: Call) => Promise<unknown>)(
        received,
        call,
      );
      if (answer instanceof Response) return answer;
      return jsonAnswer(answer === undefined || response === undefined ? {} : response.encode(answer as object));
    } catch (error) {
      await consume(operation, call, error).catch((second: unknown) => {
        if (!(second instanceof Refusal)) throw second;
      });
      throw error;
    }
  };

  const pass = async (call: Call, fallback: "json" | "forward-json"): Promise<Response> => {
    const isProto = (call.request.headers.get("content-type") ?? "").includes(protobufContentType);
    const answer = await handlers.forwardBackward(call, isProto ? "proto" : fallback);
    if (answer instanceof Response) return answer;
    return jsonAnswer(contract.forwardBackward.response!.encode(answer as never));
  };

  const probe = async (request: Request, url: URL): Promise<Response | undefined> => {
    const isHealth = url.pathname === "/healthz" || url.pathname === "/api/v1/healthz";
    if (request.method !== "GET" || (!isHealth && url.pathname !== "/metrics")) return undefined;
    if (!options.openProbes) api.auth.identify(request.headers.get("x-api-key"));
    if (!isHealth) {
      const text = metrics.render(await options.gauges());
      return bytesAnswer(new TextEncoder().encode(text), "text/plain; version=0.0.4; charset=utf-8");
    }
    const { ready, reason } = options.health();
    return ready ? jsonAnswer({ status: "ok" }) : jsonAnswer({ status: "starting", reason: reason ?? "" }, 503);
  };

  const answer = async (request: Request, url: URL, hold: BodyHold): Promise<{ route: string; response: Response }> => {
    checkHost(request, url, options.allowedHosts);
    const probed = await probe(request, url);
    if (probed !== undefined) return { route: "probe", response: probed };
    if (request.method === "GET") {
      const file = await download(api, url);
      if (file !== undefined) return { route: "download", response: file };
    }
    const caller = api.auth.identify(request.headers.get("x-api-key"));
    const isForward = request.method === "POST" && url.pathname === "/api/v1/forward";
    const other = isForward ? undefined : matchNewerRoute(request.method, url.pathname);
    const match = other === undefined ? matchCheckpoint(request.method, url.pathname) : undefined;
    if (match === undefined && !isForward && other === undefined) {
      throw new Refusal(404, "unknown_route", `There is no ${request.method} ${url.pathname.slice(0, 200)}.`);
    }
    const carriesData = isForward || (match !== undefined && "carries" in contract[match.operation]);
    const bound = other?.bodyLimit === undefined ? api.limits.parametersBytes : api.limits[other.bodyLimit];
    const bounds = carriesData ? api.limits : { bodyBytes: bound, decompressedBytes: bound };
    const bytes = request.method === "GET" ? new Uint8Array(0) : await readBody(request, bounds, hold);
    const contentType = request.headers.get("content-type") ?? "";
    const isJson = !contentType.includes(protobufContentType) && !contentType.startsWith("multipart/");
    const wire = isJson ? readJson(bytes, api.limits) : undefined;
    const call: Call = { caller, request, url, wire, bytes };
    if (isForward) return { route: "forward", response: await pass(call, "forward-json") };
    if (match !== undefined)
      return { route: match.operation, response: await run(match.operation, match.params, call) };
    return { route: other!.operation, response: await newer[other!.operation](call, other!.match) };
  };

  return async (request) => {
    const started = performance.now();
    let route = "none";
    let response: Response;
    if (inFlight >= api.limits.concurrentRequests) {
      return problem(429, "too_many_requests", "The server has as many open requests as it takes.", 1);
    }
    inFlight++;
    const hold = bodies.hold();
    try {
      const url = new URL(request.url);
      route = matchRoute(request.method, url.pathname)?.operation ?? "other";
      ({ route, response } = await answer(request, url, hold));
    } catch (error) {
      const known = errorAnswer(error);
      if (known === undefined) {
        api.log.error("http.failed", { route, error: (error as Error)?.stack ?? String(error) });
        response = problem(500, "internal", "The server failed at this request; its log says why.");
      } else response = known;
    } finally {
      inFlight--;
      hold.release();
    }
    api.queue.context.onPoint?.("reply");
    metrics.request(route, response.status, (performance.now() - started) / 1000);
    return response;
  };
}
