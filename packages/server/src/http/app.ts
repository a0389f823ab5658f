/**
 * The server as one function, `fetch(Request) → Response`: who asks, within what bounds, which route, and what an error looks
 * like from outside. No error that a client can cause is a 5xx.
 */
import {
  contract,
  type Message,
  matchRoute,
  type Operation,
  protobufContentType,
  type Route,
  type RouteMatch,
  type Studio,
  unknownFields,
} from "@tinklet/wire";
import { UserError } from "../queue/job.ts";
import { Refusal } from "../queue/refusal.ts";
import type { SideThread } from "../thread/side-thread.ts";
import { ownModel } from "./access/access.ts";
import { type Caller, credentialOf } from "./access/auth.ts";
import { hostedCheck } from "./access/hosted-rules.ts";
import { checkHostName, checkOrigin } from "./access/hosts.ts";
import { atPublicUrl } from "./access/public-url.ts";
import { addressTenant, type Lease, TenantPool } from "./access/tenant-pool.ts";
import { bytesAnswer, bytesHeldBy, describeError, jsonAnswer, problemAnswer } from "./answers.ts";
import type { Api, Call, Handlers, PassOperation } from "./api.ts";
import { type BodyBounds, type BodyReader, readBody, readJson } from "./body/body.ts";
import type { Peer } from "./body/peer.ts";
import { unexpected } from "./chat/answer-chat.ts";
import { chatHandlers } from "./chat/handlers.ts";
import { matchChatRoute, type Surface, surfaceOf } from "./chat/routes.ts";
import { customLossHandlers } from "./handlers/custom-loss.ts";
import { deleteRun } from "./handlers/delete-run.ts";
import { foreignWeightsHandlers } from "./handlers/foreign-weights.ts";
import { futuresHandlers } from "./handlers/futures.ts";
import { progressHandlers } from "./handlers/progress.ts";
import { restHandlers } from "./handlers/rest.ts";
import { folderTokenizers, runFolderHandlers } from "./handlers/run-folders.ts";
import { samplingHandlers } from "./handlers/sampling.ts";
import { serviceHandlers } from "./handlers/service.ts";
import { sessionHandlers } from "./handlers/sessions.ts";
import { numberedKinds, peekJson, refuseOtherOptimizers, trainingHandlers } from "./handlers/training.ts";
import { usageHandlers } from "./handlers/usage.ts";
import type { Metrics } from "./metrics.ts";
import { download } from "./runs/downloads.ts";
import { studioPage } from "./studio/page.ts";
import type { SignIn } from "./studio/sign-in.ts";
import { endingWithSignIn } from "./studio/signed-in-stream.ts";

export interface AppOptions {
  readonly api: Api;
  readonly metrics: Metrics;
  /** Where bodies are unpacked. */
  readonly thread: SideThread;
  /** Host names besides `localhost` and addresses. */
  readonly allowedHosts: readonly string[];
  /** Where clients reach the server, when that is not where it listens. Its host is allowed. */
  readonly publicUrl: URL | undefined;
  /** Whether `healthz` answers without a key; so does `/metrics` where no keys are configured. */
  readonly openProbes: boolean;
  /** Whether what the hosted service refuses is refused here too. */
  readonly strict: boolean;
  /** Whether the engines are ready, and why not. */
  readonly health: () => { readonly ready: boolean; readonly reason?: string };
  /** The page at `/`. @defaultValue none */
  readonly studio: Studio | undefined;
  readonly signIn: SignIn;
  /** Current values for `/metrics`. */
  readonly gauges: () => Promise<Readonly<Record<string, number>>>;
}

const contentTypeOf = (request: Request): string => (request.headers.get("content-type") ?? "").toLowerCase();

/** What one request holds, from its first byte to the last one of its answer. */
interface Admission {
  readonly peer: Peer | undefined;
  /** Its place among the requests in flight. */
  readonly place: Lease;
  /** Bytes of its body. */
  readonly body: Lease;
  readonly read: (bounds: BodyBounds) => Promise<Uint8Array>;
  readonly onSent: Call["onSent"];
  /** Whose it is, as far as it is known. */
  tenant: string;
}

/** As cheap as can be: the server is busy. */
const pathSurface = (url: string): Surface => surfaceOf(url.replace(/^\w+:\/\/[^/]*/, "").replace(/[?#].*$/, ""));

const unknownRoute = (request: Request, url: URL): Refusal =>
  new Refusal(404, "unknown_route", `There is no ${request.method} ${url.pathname.slice(0, 200)}.`);

export function createApp(options: AppOptions): (request: Request, peer?: Peer) => Promise<Response> {
  const { api, metrics, thread, publicUrl } = options;
  const allowedHosts = [...options.allowedHosts, ...(publicUrl === undefined ? [] : [publicUrl.hostname])];
  const handlers: Handlers = {
    ...serviceHandlers(
      api,
      [...(options.strict ? [] : ["constraint"]), ...(options.studio === undefined ? [] : ["studio"])],
      folderTokenizers(api, options.studio?.folders),
    ),
    ...trainingHandlers(api),
    ...samplingHandlers(api, options.strict),
    ...restHandlers(api),
    ...customLossHandlers(api),
    ...futuresHandlers(api),
    ...sessionHandlers(api),
    ...usageHandlers(api),
    ...progressHandlers(api),
    ...runFolderHandlers(api, options.studio?.folders),
    ...foreignWeightsHandlers(api),
    deleteRun: ({ params }, call) => deleteRun(api, call, params.trainingRunId),
  };
  const chat = chatHandlers(api);
  const { studio, signIn } = options;
  const page = studioPage({ studio, signIn, limits: api.limits, hasModels: api.models.size > 0 });
  /** By key, or, where there is a page, by the cookie of a browser that is signed in. */
  const identify = (request: Request, url: URL, credential: string | null) =>
    (credential === null && studio !== undefined ? signIn.callerOf(request, url) : undefined) ??
    api.auth.identify(credential);
  const told = new Set<string>();
  const hosted = hostedCheck(options.strict, api.log);
  const bodies = new TenantPool({
    capacity: api.limits.bodiesBytes,
    unit: "bytes of bodies and answers",
    code: "too_many_bytes",
  });
  const inFlight = new TenantPool({
    capacity: api.limits.concurrentRequests,
    unit: "requests",
    code: "too_many_requests",
  });

  const admissionOf = (request: Request, peer: Peer | undefined): Admission => {
    const tenant = addressTenant(peer?.address ?? "in-process");
    const body = bodies.lease(tenant);
    const { clock, limits: pace } = api;
    const reader: BodyReader = { source: peer?.body, lease: body, clock, pace, thread };
    const read = (bounds: BodyBounds) => readBody(request, bounds, reader);
    const onSent = peer?.onSent ?? ((run: () => void) => run());
    return { peer, place: inFlight.lease(tenant), body, read, onSent, tenant };
  };
  const whileSignedIn = (response: Response, { signIn: id }: Caller): Response =>
    id === undefined ? response : endingWithSignIn(response, (end) => signIn.untilSignedOut(id, end));
  /** From here on the request counts for the owner of its key. @throws {@link Refusal} 401, 429 */
  const callerOf = (request: Request, url: URL, credential: string | null, admission: Admission): Caller => {
    const caller = identify(request, url, credential);
    admission.peer?.identified(caller.tenant);
    admission.place.moveTo(caller.tenant);
    admission.body.moveTo(caller.tenant);
    admission.tenant = caller.tenant;
    return caller;
  };
  /** Gives back what the request holds; what its answer holds counts until the client has it. */
  const settle = ({ place, body, tenant, onSent }: Admission, response: Response, surface: Surface): Response => {
    body.release();
    onSent(() => place.release());
    const bytes = bytesHeldBy(response);
    if (bytes === 0) return response;
    const lease = bodies.lease(tenant);
    try {
      lease.take(bytes);
    } catch (error) {
      return problemAnswer(describeError(error) ?? unexpected, surface);
    }
    onSent(() => lease.release());
    return response;
  };

  /** Fields that this version does not know are tolerated, and worth one line each. */
  const noteUnknown = (operation: Operation, wire: unknown) => {
    const schema = (contract[operation] as { body?: unknown }).body;
    if (schema === undefined || told.size > 1000) return;
    for (const name of unknownFields(schema as Message<never, never>, wire)) {
      const key = `${operation}.${name.slice(0, 100)}`;
      if (told.has(key)) continue;
      told.add(key);
      api.log.info("request.unknown_field", { operation, field: name.slice(0, 100) });
    }
  };

  /** A refused request of a model uses its number up, so that nothing behind it waits. */
  const consume = async (operation: Operation, call: Call, error: unknown): Promise<void> => {
    const kind = numberedKinds[operation];
    const at = kind === undefined ? undefined : peekJson(call.wire);
    const isTransient = [429, 503, 507].includes(describeError(error)?.status ?? 0);
    const isReused = error instanceof Refusal && error.code === "number_reused";
    if (kind === undefined || at === undefined || isTransient || isReused) return;
    const told = error instanceof Refusal ? new UserError(error.message) : error;
    await api.queue.refuse({ kind, seq: at.seqId, tenant: call.caller.tenant }, ownModel(api, call, at.modelId), told);
  };

  const run = async (operation: Operation, params: Readonly<Record<string, string>>, call: Call): Promise<Response> => {
    if (operation === "forwardBackward" || operation === "forward") return pass(operation, call);
    const { query, body, response } = contract[operation] as {
      query?: Message<object>;
      body?: Message<object>;
      response?: Message<object>;
    };
    try {
      if (operation === "optimStep") refuseOtherOptimizers(call.wire);
      const received = {
        params,
        query: query?.decode(Object.fromEntries(call.url.searchParams)),
        body: body?.decode(call.wire),
      };
      noteUnknown(operation, call.wire);
      hosted.check(operation, received.body ?? received.query);
      const answer = await (handlers[operation] as (r: unknown, c: Call) => Promise<unknown>)(received, call);
      if (answer instanceof Response) return answer;
      return jsonAnswer(answer === undefined || response === undefined ? {} : response.encode(answer as object));
    } catch (error) {
      await consume(operation, call, error).catch((second: unknown) => {
        if (!(second instanceof Refusal)) throw second;
      });
      throw error;
    }
  };

  const pass = async (operation: PassOperation, call: Call): Promise<Response> => {
    const isProto = contentTypeOf(call.request).includes(protobufContentType);
    const form = isProto ? "proto" : operation === "forward" ? "forward-json" : "json";
    const answer = await handlers[operation](call, form);
    if (answer instanceof Response) return answer;
    return jsonAnswer(contract[operation].response!.encode(answer as never));
  };

  const probe = async (request: Request, url: URL): Promise<Response | undefined> => {
    const isHealth = url.pathname === "/healthz" || url.pathname === "/api/v1/healthz";
    if (request.method !== "GET" || (!isHealth && url.pathname !== "/metrics")) return undefined;
    // the counters are of all tenants together
    const isOpen = options.openProbes && (isHealth || !api.auth.strict);
    if (!isOpen) api.auth.identify(credentialOf(request)); // Prometheus sends its key as a bearer
    if (!isHealth) {
      const text = metrics.render({
        ...(await options.gauges()),
        tinklet_open_requests: inFlight.used,
        tinklet_bodies_bytes: bodies.used,
      });
      return bytesAnswer(new TextEncoder().encode(text), "text/plain; version=0.0.4; charset=utf-8");
    }
    const { ready, reason } = options.health();
    return ready ? jsonAnswer({ status: "ok" }) : jsonAnswer({ status: "starting", reason: reason ?? "" }, 503);
  };

  const answer = async (
    request: Request,
    url: URL,
    match: RouteMatch | undefined,
    admission: Admission,
  ): Promise<Response> => {
    // Before the check of origins: a link to the page may be followed from anywhere, and the page holds nothing.
    const own = await page(request, url, admission.read);
    if (own !== undefined) return own;
    checkOrigin(request, url);
    const open = (await probe(request, url)) ?? (request.method === "GET" ? await download(api, url) : undefined);
    if (open !== undefined) return open;
    const caller = callerOf(request, url, request.headers.get("x-api-key"), admission);
    if (match === undefined) throw unknownRoute(request, url);
    const { carries } = contract[match.operation] as Route;
    const contentType = contentTypeOf(request);
    const isForm = contentType.startsWith("multipart/");
    if (carries === "adapter" && !isForm) {
      const sent = contentType === "" ? "none" : contentType.slice(0, 100);
      throw new Refusal(
        415,
        "unknown_content_type",
        `Content-Type: is ${sent}; send the files as multipart/form-data.`,
      );
    }
    const bytes = request.method === "GET" ? new Uint8Array(0) : await admission.read(boundsOf(carries));
    const isJson = !contentType.includes(protobufContentType) && !isForm;
    const wire = isJson ? readJson(bytes, api.limits) : undefined;
    const response = await run(match.operation, match.params, {
      caller,
      request,
      url,
      wire,
      bytes,
      onSent: admission.onSent,
    });
    await api.queue.context.store.db.synced();
    return whileSignedIn(response, caller);
  };

  const answerChat = async (
    request: Request,
    url: URL,
    match: ReturnType<typeof matchChatRoute>,
    admission: Admission,
  ): Promise<Response> => {
    checkOrigin(request, url);
    const caller = callerOf(request, url, credentialOf(request), admission);
    if (match === undefined) throw unknownRoute(request, url);
    const { chatBytes: bound } = api.limits;
    const bounds = { bodyBytes: bound, decompressedBytes: bound };
    const isGet = request.method === "GET";
    const bytes = isGet ? new Uint8Array(0) : await admission.read(bounds);
    const wire = readJson(bytes, api.limits);
    const call = { caller, request, url, wire, bytes, onSent: admission.onSent };
    return whileSignedIn(await chat[match.operation](call, match.params), caller);
  };

  const boundsOf = (carries: Route["carries"]): BodyBounds => {
    if (carries === "data") return api.limits;
    const bound = carries === "adapter" ? api.limits.adapterBytes : api.limits.parametersBytes;
    return { bodyBytes: bound, decompressedBytes: bound };
  };

  return async (request, peer) => {
    const started = api.clock.monotonic();
    let route = "none";
    let response: Response;
    let surface: Surface = "tinker";
    const admission = admissionOf(request, peer);
    try {
      surface = pathSurface(request.url);
      admission.place.take(1);
      const asked = new URL(request.url);
      checkHostName(asked, allowedHosts);
      const url = atPublicUrl(asked, publicUrl);
      if (surface === "tinker") {
        const match = matchRoute(request.method, url.pathname);
        route = match?.operation ?? "other";
        response = await answer(request, url, match, admission);
      } else {
        const match = matchChatRoute(request.method, url.pathname);
        route = match?.operation ?? "other";
        response = await answerChat(request, url, match, admission);
      }
    } catch (error) {
      const known = describeError(error);
      if (known === undefined) {
        api.log.error("http.failed", { route, error: (error as Error)?.stack ?? String(error) });
      }
      response = problemAnswer(known ?? unexpected, surface);
    }
    response = settle(admission, response, surface);
    api.queue.context.onPoint?.("reply");
    metrics.request(route, response.status, (api.clock.monotonic() - started) / 1000);
    return response;
  };
}
