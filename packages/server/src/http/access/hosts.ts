/**
 * Keeping web pages out: a page that a user happens to visit must not be able to drive the server. Names in the Host header must
 * be known (an address is fine: DNS rebinding needs a name), and requests that carry a foreign Origin are refused. No answer ever
 * has a CORS header.
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
      `The Host ${JSON.stringify(url.hostname.slice(0, 100))} is not one of this server's names. Add it (--allow-host, allowedHosts) if it should be.`,
    );
  }
}

/** @param url - as the client sees it. @throws {@link Refusal} 403 when a page of another origin asks */
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
