/**
 * The server as one function, `fetch(Request) → Response`. Every request passes the same stages: authenticate, limit, validate, dispatch
 * (`createApp`); the route table says what each stage does for a path. An error that a client can cause is never a 5xx.
 */
import type { SideThread } from "../thread/side-thread.ts";
import { type Caller, localTenant } from "./access/auth.ts";
import { checkHostName } from "./access/hosts.ts";
import { atPublicUrl } from "./access/public-url.ts";
import { describeError, problemAnswer } from "./answers.ts";
import { readJson } from "./body/body.ts";
import type { Peer } from "./body/peer.ts";
import { unexpected } from "./chat/answer-chat.ts";
import { type Surface, surfaceOf } from "./chat/routes.ts";
import type { Metrics } from "./metrics.ts";
import { createRequestsInFlight, type RequestInFlight } from "./requests-in-flight.ts";
import {
  type AppRoute,
  createRouteTable,
  type KeyRoute,
  type OpenCall,
  type RouteTableOptions,
} from "./route-table.ts";
import { endingWithSignIn } from "./studio/signed-in-stream.ts";
import { isProtobuf, tracesPath } from "./traces/trace-ingest.ts";

export interface AppOptions extends Omit<RouteTableOptions, "metricsText"> {
  readonly metrics: Metrics;
  /** Decompresses bodies. */
  readonly thread: SideThread;
  /** Accepted host names besides `localhost` and addresses. */
  readonly allowedHosts: readonly string[];
  /** The URL at which clients reach the server, if that is not where it listens. Its host name is accepted. */
  readonly publicUrl: URL | undefined;
  /** Current values for `/metrics`. */
  readonly gauges: () => Promise<Readonly<Record<string, number>>>;
}

/** The surface of a request whose URL is not parsed yet; it determines the form of errors, also of those of parsing it. */
function surfaceOfRequest(request: Request): Surface {
  const path = request.url.replace(/^\w+:\/\/[^/]*/, "").replace(/[?#].*$/, "");
  if (path === tracesPath) return isProtobuf(request) ? "otlp" : "otlp-json";
  return surfaceOf(path);
}

export function createApp(options: AppOptions): (request: Request, peer?: Peer) => Promise<Response> {
  const { api, metrics, publicUrl, signIn, studio } = options;
  const allowedHosts = [...options.allowedHosts, ...(publicUrl === undefined ? [] : [publicUrl.hostname])];
  const requestsInFlight = createRequestsInFlight(api, options.thread);
  const routeOf = createRouteTable({
    ...options,
    metricsText: async () =>
      metrics.render({
        ...(await options.gauges()),
        tinklet_open_requests: requestsInFlight.count,
        tinklet_bodies_bytes: requestsInFlight.bytes,
      }),
  });

  /** The caller by key or, if the studio is served, by the cookie of a signed-in browser. @throws Refusal 401, 429 */
  const authenticate = (route: KeyRoute, { request, url }: OpenCall, inFlight: RequestInFlight): Caller => {
    const credential = route.credential(request);
    if (credential.value === null && route.keyIsOptional === true && !api.auth.strict) {
      inFlight.moveTo(localTenant);
      return { tenant: localTenant, credential: "key" };
    }
    const mayUseCookie = credential.value === null && route.acceptsCookie && studio !== undefined;
    const caller = (mayUseCookie ? signIn.callerOf(request, url) : undefined) ?? api.auth.identify(credential);
    inFlight.moveTo(caller.tenant);
    return caller;
  };

  /** Reads the body within the route's limits. @throws Refusal 400, 408, 413, 415, 429 */
  const readWithinLimits = async (route: AppRoute, request: Request, inFlight: RequestInFlight) => {
    route.checkHeaders?.(request);
    const hasBody = request.method !== "GET" && route.bounds !== undefined;
    const bytes = hasBody ? await inFlight.read(route.bounds!) : new Uint8Array(0);
    return { bytes, wire: (route.isJson?.(request) ?? true) ? readJson(bytes, api.limits) : undefined };
  };

  const answer = async (route: AppRoute, request: Request, url: URL, inFlight: RequestInFlight): Promise<Response> => {
    const { onSent } = inFlight;
    const arrived = { request, url, onSent, bytes: new Uint8Array(0), wire: undefined };
    route.checkOrigin(request, url);
    if (route.access === "open") {
      return route.answer({ ...arrived, ...(await readWithinLimits(route, request, inFlight)) });
    }
    const caller = authenticate(route, arrived, inFlight);
    const call = { ...arrived, caller, ...(await readWithinLimits(route, request, inFlight)) };
    let response: Response;
    try {
      response = await route.answer(call, route.validate?.(call));
    } catch (error) {
      await route.onFailure?.(call, error);
      throw error;
    }
    const { signIn: id } = caller;
    return id === undefined ? response : endingWithSignIn(response, (end) => signIn.untilSignedOut(id, end));
  };

  return async (request, peer) => {
    const started = api.clock.monotonic();
    const inFlight = requestsInFlight.of(request, peer);
    let label = "none";
    let surface: Surface = "tinker";
    let response: Response;
    try {
      surface = surfaceOfRequest(request);
      inFlight.enter();
      const sentUrl = new URL(request.url);
      checkHostName(sentUrl, allowedHosts);
      const url = atPublicUrl(sentUrl, publicUrl);
      const route = routeOf(request, url, surface);
      label = route.label;
      response = await answer(route, request, url, inFlight);
    } catch (error) {
      const known = describeError(error);
      if (known === undefined) {
        const text = (error as Error)?.stack ?? String(error);
        api.log.error("http_request.failed", { route: label, error: text });
      }
      response = problemAnswer(known ?? unexpected, surface);
    }
    response = inFlight.settle(response, surface);
    api.queue.context.onPoint?.("reply");
    metrics.request(label, response.status, (api.clock.monotonic() - started) / 1000);
    return response;
  };
}
