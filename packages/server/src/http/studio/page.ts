/**
 * The studio's page and the paths it needs outside the contract: its files, the signed-in tenant, signing in and out. The page itself has
 * no data and needs no key. Its content security policy allows scripts, files and calls of this server only.
 */

import type { Studio, StudioFile } from "@tinklet/wire";
import { Refusal } from "../../queue/refusal.ts";
import { bytesAnswer, jsonAnswer } from "../answers.ts";
import type { OpenCall, OpenRoute } from "../route-table.ts";
import { checkSameOrigin, type SignIn } from "./sign-in.ts";

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const headers = {
  "content-security-policy": policy,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "cache-control": "no-cache",
};

/** Bytes of the body of a sign-in, which is one token or key. */
const signInBytes = 8192;

export interface StudioRoutesOptions {
  readonly studio: Studio | undefined;
  readonly signIn: SignIn;
  /** Whether the server serves a model. */
  readonly hasModels: boolean;
}

/** Any page may link to the studio and load its files, which have no data. */
const anyOrigin = (): void => {};

/** The routes of the studio; `undefined` for paths that are not the studio's. */
export function studioRoutes(options: StudioRoutesOptions): (method: string, path: string) => OpenRoute | undefined {
  const { studio, signIn, hasModels } = options;
  const changeSignIn = async ({ request, url, wire }: OpenCall): Promise<Response> => {
    if (url.pathname === "/studio/sign-out") return signedIn(await signIn.signOut(request, url));
    if (typeof wire !== "object" || wire === null) {
      throw new Refusal(422, "invalid_request", "body: must be an object with token or key");
    }
    return signedIn(await signIn.admit(wire as { token?: unknown; key?: unknown }, url));
  };
  const session = ({ request, url }: OpenCall): Response => {
    const tenant = signIn.tenantOf(request, url) ?? null;
    const body = { tenant, needs_key: signIn.needsKey, has_models: hasModels, has_folders: !!studio?.folders };
    return jsonAnswer(body, 200, headers);
  };
  const route = (answer: OpenRoute["answer"]): OpenRoute => ({
    label: "other",
    access: "open",
    checkOrigin: anyOrigin,
    answer,
  });
  return (method, path) => {
    if (path !== "/" && !path.startsWith("/studio/")) return undefined;
    if (method === "POST" && studio !== undefined && /^\/studio\/sign-(in|out)$/.test(path)) {
      const bounds = { bodyBytes: signInBytes, decompressedBytes: signInBytes };
      return { ...route(changeSignIn), checkOrigin: checkSameOrigin, bounds };
    }
    if (method !== "GET") return undefined;
    if (path === "/studio/session" && studio !== undefined) return route(session);
    const file = studio?.file(path);
    if (file !== undefined) return route(({ request }) => fileAnswer(request, file));
    return path === "/" ? route(() => withoutStudio()) : undefined;
  };
}

function fileAnswer(request: Request, file: StudioFile): Response {
  const cacheable = { ...headers, etag: file.etag, vary: "accept-encoding" };
  if (request.headers.get("if-none-match") === file.etag) {
    return new Response(null, { status: 304, headers: cacheable });
  }
  const acceptsGzip = /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");
  const encoding = acceptsGzip ? { "content-encoding": "gzip" } : undefined;
  return bytesAnswer(acceptsGzip ? file.gzip : file.bytes, file.contentType, 200, { ...cacheable, ...encoding });
}

function withoutStudio(): Response {
  const text = "This is a Tinker API server. Its studio is off or not installed: npm install @tinklet/studio\n";
  return bytesAnswer(new TextEncoder().encode(text), "text/plain; charset=utf-8", 200, headers);
}

const signedIn = (cookie: string): Response => jsonAnswer({}, 200, { ...headers, "set-cookie": cookie });
