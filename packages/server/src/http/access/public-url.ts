/**
 * The URL at which clients reach a server through a proxy. The allowed origin of the studio, the cookie's name and `Secure` flag, and links
 * in responses depend on it. It is configured, because a request does not show whether a proxy forwarded it, and any client can send the
 * headers that name an outer URL.
 */
import { InvalidInputError } from "@tinklet/wire/errors";

/**
 * Reads a public URL: a scheme, a host and, if needed, a port.
 *
 * @throws InvalidInputError naming `publicUrl`.
 */
export function parsePublicUrl(text: string): URL {
  const refuse = (reason: string): InvalidInputError =>
    new InvalidInputError(
      "publicUrl",
      `${reason}, got ${JSON.stringify(text.slice(0, 200))}. Use the origin that browsers show, such as https://tinker.example.com`,
    );
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw refuse("must be a URL with its scheme");
  if (url.protocol !== "https:" && url.protocol !== "http:") throw refuse("must begin with https:// or http://");
  if (url.username !== "" || url.password !== "") throw refuse("must not have a name or password");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "" || /[?#]/.test(text)) {
    throw refuse("must not have a path, query or fragment: the page and the API are served at the root");
  }
  return url;
}

/** A request's URL as its client sees it. */
export const atPublicUrl = (url: URL, publicUrl: URL | undefined): URL =>
  publicUrl === undefined ? url : new URL(`${publicUrl.origin}${url.pathname}${url.search}`);
