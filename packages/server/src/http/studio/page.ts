/**
 * The studio's page and the few paths beside the contract that it needs: its files, who is signed in, signing in and out. The page itself
 * holds no data and needs no key. Its policy lets it run no script, load nothing and call nobody but this server.
 */

import type { Studio } from "@tinklet/wire";
import type { Limits } from "../../limits.ts";
import { Refusal } from "../../queue/refusal.ts";
import { bytesAnswer, jsonAnswer } from "../answers.ts";
import { type BodyBounds, readJson } from "../body/body.ts";
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

/** A sign-in is a short text. */
const signInBytes = 8192;

export interface StudioPageOptions {
  readonly studio: Studio | undefined;
  readonly signIn: SignIn;
  readonly limits: Limits;
  /** Whether there is a model to train or to talk to. */
  readonly hasModels: boolean;
}

/** Answers what belongs to the page; `undefined` for everything else. */
export type StudioPage = (request: Request, url: URL, read: ReadBody) => Promise<Response | undefined>;

/** Reads the request's body. */
type ReadBody = (bounds: BodyBounds) => Promise<Uint8Array>;

export function studioPage({ studio, signIn, limits, hasModels }: StudioPageOptions): StudioPage {
  const handOut = (request: Request, path: string): Response | undefined => {
    const file = studio?.file(path);
    if (file === undefined) return undefined;
    const known = { ...headers, etag: file.etag, vary: "accept-encoding" };
    if (request.headers.get("if-none-match") === file.etag) return new Response(null, { status: 304, headers: known });
    const packs = /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");
    const body = packs ? file.gzip : file.bytes;
    const encoding = packs ? { "content-encoding": "gzip" } : undefined;
    return bytesAnswer(body, file.contentType, 200, { ...known, ...encoding });
  };
  const change = async (request: Request, url: URL, read: ReadBody): Promise<Response> => {
    checkSameOrigin(request, url);
    if (url.pathname === "/studio/sign-out") return signedIn(await signIn.signOut(request, url));
    const bounds = { bodyBytes: signInBytes, decompressedBytes: signInBytes };
    const body = readJson(await read(bounds), limits);
    if (typeof body !== "object" || body === null) {
      throw new Refusal(422, "invalid_request", "Send an object with a token or a key.");
    }
    return signedIn(await signIn.admit(body as { token?: unknown; key?: unknown }, url));
  };
  return async (request, url, read) => {
    const { pathname: path } = url;
    if (path !== "/" && !path.startsWith("/studio/")) return undefined;
    if (request.method === "POST" && studio !== undefined && /^\/studio\/sign-(in|out)$/.test(path)) {
      return change(request, url, read);
    }
    if (request.method !== "GET") return undefined;
    if (path === "/studio/session" && studio !== undefined) {
      const tenant = signIn.tenantOf(request, url) ?? null;
      const session = { tenant, needs_key: signIn.needsKey, has_models: hasModels, has_folders: !!studio.folders };
      return jsonAnswer(session, 200, headers);
    }
    const file = handOut(request, path);
    if (file !== undefined || path !== "/") return file;
    const text = "This is a Tinker API server. Its page is off or not installed: npm install @tinklet/studio\n";
    return bytesAnswer(new TextEncoder().encode(text), "text/plain; charset=utf-8", 200, headers);
  };
}

const signedIn = (cookie: string): Response => jsonAnswer({}, 200, { ...headers, "set-cookie": cookie });
