/**
 * Protection against web pages of other sites, which must not be able to call the server from a user's browser. The name in the Host
 * header must be a known one (addresses are accepted: DNS rebinding needs a name), and requests with the Origin of another site are
 * refused. No response has a CORS header.
 */
import { isIP } from "node:net";
import { Refusal } from "../../queue/refusal.ts";

/** @param allowed - further host names, without ports. @throws {@link Refusal} 403 */
export function checkHostName(url: URL, allowed: readonly string[]): void {
  const known = (host: string): boolean => {
    const name = host
      .toLowerCase()
      .replace(/^\[|\]$/g, "")
      .replace(/\.$/, "");
    return name === "localhost" || isIP(name) !== 0 || allowed.some((item) => item.toLowerCase() === name);
  };
  if (!known(url.hostname)) {
    throw new Refusal(
      403,
      "unknown_host",
      `The Host ${JSON.stringify(url.hostname.slice(0, 100))} is not one of this server's names. If it is correct, add it (--allow-host, allowedHosts).`,
    );
  }
}

/** @param url - as the client sees it. @throws {@link Refusal} 403 for a request of a page of another origin */
export function checkOrigin(request: Request, url: URL): void {
  const origin = request.headers.get("origin");
  if (origin !== null && origin !== url.origin) {
    throw new Refusal(403, "foreign_origin", "Requests from web pages of other origins are refused.");
  }
  const site = request.headers.get("sec-fetch-site");
  if (site === "cross-site" || site === "same-site") {
    throw new Refusal(403, "foreign_origin", "Requests from web pages of other origins are refused.");
  }
}
