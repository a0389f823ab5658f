/**
 * The route table: every path of the server, with who may call it, how large its body may be, and which function answers. `createApp` runs
 * each request through the same stages; a route supplies what differs.
 */
import type { Studio } from "@tinklet/wire";
import { Refusal } from "../queue/refusal.ts";
import { type Credential, chatCredential, keyCredential } from "./access/auth.ts";
import { checkOrigin } from "./access/hosts.ts";
import { bytesAnswer, jsonAnswer } from "./answers.ts";
import type { Api, Call } from "./api.ts";
import type { BodyBounds } from "./body/body.ts";
import { chatHandlers } from "./chat/handlers.ts";
import { matchChatRoute, type Surface } from "./chat/routes.ts";
import { contractRoutes } from "./contract-routes.ts";
import { download } from "./runs/downloads.ts";
import { studioRoutes } from "./studio/page.ts";
import type { SignIn } from "./studio/sign-in.ts";
import { traceIngestRoute } from "./traces/trace-ingest.ts";

/** A request to a route that needs no key. */
export type OpenCall = Omit<Call, "caller">;

interface AnyRoute {
  /** Label of the request in `/metrics`. */
  readonly label: string;
  /** Refuses requests of web pages that may not call the route. @throws Refusal 403 */
  readonly checkOrigin: (request: Request, url: URL) => void;
  /** Size of the body; without it no body is read. */
  readonly bounds?: BodyBounds | undefined;
  /** Refuses a body by its headers, before it is read. @throws Refusal 415 */
  readonly checkHeaders?: ((request: Request) => void) | undefined;
  /** Whether the body is JSON. @defaultValue true */
  readonly isJson?: (request: Request) => boolean;
}

export interface OpenRoute extends AnyRoute {
  readonly access: "open";
  readonly answer: (call: OpenCall) => Promise<Response> | Response;
}

export interface KeyRoute extends AnyRoute {
  readonly access: "key";
  readonly credential: (request: Request) => Credential;
  /** Whether a signed-in browser may call it with its cookie. */
  readonly acceptsCookie: boolean;
  /** Whether a server without configured keys accepts a request without a key. @defaultValue false */
  readonly keyIsOptional?: boolean;
  /** Decodes and checks the parameters. @defaultValue `answer` checks them itself */
  readonly validate?: (call: Call) => unknown;
  readonly answer: (call: Call, input: unknown) => Promise<Response> | Response;
  /** Called when `validate` or `answer` throws. */
  readonly onFailure?: (call: Call, error: unknown) => Promise<void>;
}

export type AppRoute = OpenRoute | KeyRoute;
/** Finds the route of a request. Always finds one: unknown paths have a route that answers 401 or 404. */
export type RouteTable = (request: Request, url: URL, surface: Surface) => AppRoute;

export interface RouteTableOptions {
  readonly api: Api;
  /** Whether `healthz` needs no key. `/metrics` then needs none either, unless keys are configured. */
  readonly openProbes: boolean;
  /** Whether calls that the hosted service refuses are refused. */
  readonly strict: boolean;
  /** Whether the engines are ready; if not, the reason. */
  readonly health: () => { readonly ready: boolean; readonly reason?: string };
  /** The studio, at `/`. @defaultValue none */
  readonly studio: Studio | undefined;
  readonly signIn: SignIn;
  /** The text of `/metrics`. */
  readonly metricsText: () => Promise<string>;
}

export function createRouteTable(options: RouteTableOptions): RouteTable {
  const { api, studio, signIn } = options;
  const contract = contractRoutes(options);
  const page = studioRoutes({ studio, signIn, hasModels: api.models.size > 0 });
  const chat = chatRoutesOf(api);
  const traces = traceIngestRoute(api);
  return (request, url, surface) => {
    const { pathname: path } = url;
    const found =
      surface === "tinker"
        ? (probe(options, request.method, path) ??
          contract(request.method, path) ??
          page(request.method, path) ??
          downloads(api, request.method, path))
        : surface === "otlp" || surface === "otlp-json"
          ? traces(request.method, path)
          : chat(request.method, path);
    return found ?? unknownRoute(surface === "tinker" ? keyCredential : chatCredential);
  };
}

/** Answered with 401 before 404, so that a caller without a key cannot find out which routes exist. */
const unknownRoute = (credential: KeyRoute["credential"]): KeyRoute => ({
  label: "other",
  access: "key",
  credential,
  acceptsCookie: true,
  checkOrigin,
  answer: ({ request, url }) => {
    throw new Refusal(404, "unknown_route", `There is no ${request.method} ${url.pathname.slice(0, 200)}.`);
  },
});

function chatRoutesOf(api: Api): (method: string, path: string) => KeyRoute | undefined {
  const handlers = chatHandlers(api);
  const bounds = { bodyBytes: api.limits.chatBytes, decompressedBytes: api.limits.chatBytes };
  return (method, path) => {
    const match = matchChatRoute(method, path);
    return (
      match && {
        label: match.operation,
        access: "key",
        credential: chatCredential,
        acceptsCookie: true,
        checkOrigin,
        bounds,
        answer: (call) => handlers[match.operation](call, match.params),
      }
    );
  };
}

/** `healthz` and `/metrics`. */
function probe(options: RouteTableOptions, method: string, path: string): AppRoute | undefined {
  const { api, openProbes, health, metricsText } = options;
  const isHealth = path === "/healthz" || path === "/api/v1/healthz";
  if (method !== "GET" || (!isHealth && path !== "/metrics")) return undefined;
  const label = path === "/api/v1/healthz" ? "healthz" : "other";
  const answer = async (): Promise<Response> => {
    if (!isHealth) {
      const text = new TextEncoder().encode(await metricsText());
      return bytesAnswer(text, "text/plain; version=0.0.4; charset=utf-8");
    }
    const { ready, reason } = health();
    return ready ? jsonAnswer({ status: "ok" }) : jsonAnswer({ status: "starting", reason: reason ?? "" }, 503);
  };
  // The counters are those of all tenants together, so with configured keys they are not open.
  if (openProbes && (isHealth || !api.auth.strict)) return { label, access: "open", checkOrigin, answer };
  // Prometheus sends its key as a bearer token.
  return { label, access: "key", credential: chatCredential, acceptsCookie: false, checkOrigin, answer };
}

/** Signed links, which need no key. */
function downloads(api: Api, method: string, path: string): OpenRoute | undefined {
  if (method !== "GET" || !/^\/download\/(archive|trace|file)\/./.test(path)) return undefined;
  return { label: "other", access: "open", checkOrigin, answer: ({ url }) => download(api, url) };
}
