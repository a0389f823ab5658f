/**
 * The option `proxy`: its checks, and what undici is given for it. Credentials are taken out of the URL, so that no error and no
 * diagnostic of the connection contains them. Loaded with the undici exchange.
 */
import { InvalidInputError } from "@tinklet/wire/errors";
import { checkOptions, describe } from "@tinklet/wire/options";
import type { EnvHttpProxyAgent } from "undici";

/** A proxy for all requests of a client, on Node. */
export interface ProxyOptions {
  /** `http://` or `https://`, with user name and password if the proxy wants them. */
  readonly url: string;
  /** Headers for the proxy alone, sent with `CONNECT`; the server does not see them. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Hosts that are reached without the proxy, in the form of `NO_PROXY`. @defaultValue none */
  readonly noProxy?: string | undefined;
}

export type ProxySettings = string | ProxyOptions;

const proxyNames = { url: true, headers: true, noProxy: true } as const;

/**
 * @param onSecret - receives each credential, for redaction
 * @throws {@link InvalidInputError} naming the field. The URL is not quoted, because it may contain a password.
 */
export function proxyOptions(
  proxy: ProxySettings,
  onSecret: (secret: string) => void = () => {},
): EnvHttpProxyAgent.Options {
  const settings = typeof proxy === "string" ? { url: proxy } : proxy;
  if (typeof settings !== "object" || settings === null) {
    throw new InvalidInputError("proxy", `must be a URL or an object with url, got ${describe(proxy)}`);
  }
  checkOptions("proxy", settings, proxyNames, "proxy");
  const { noProxy = "" } = settings;
  const url = URL.canParse(String(settings.url)) ? new URL(settings.url) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol)) {
    throw new InvalidInputError("proxy.url", "must be an absolute URL with http:// or https://", {
      hint: 'For example "http://proxy.example:3128".',
    });
  }
  const headers: Record<string, string> = {};
  const { username, password } = url;
  if (username !== "" || password !== "") {
    const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    const encoded = Buffer.from(pair).toString("base64");
    headers["proxy-authorization"] = `Basic ${encoded}`;
    for (const secret of [encoded, password, decodeURIComponent(password)]) if (secret !== "") onSecret(secret);
    url.username = "";
    url.password = "";
  }
  for (const [name, value] of Object.entries(settings.headers ?? {})) {
    if (typeof value !== "string") {
      throw new InvalidInputError(`proxy.headers.${name}`, `must be a string, got ${describe(value)}`);
    }
    headers[name.toLowerCase()] = value;
    // Without the scheme's word: "Bearer x" is a secret by its second part.
    if (/auth|key|token|secret|cookie/i.test(name)) onSecret(value.slice(value.lastIndexOf(" ") + 1));
  }
  const { href } = url;
  return { httpProxy: href, httpsProxy: href, noProxy, headers } as EnvHttpProxyAgent.Options;
}

/** `fetch` through the proxy, for links to files that a server gives. */
export async function fetchThrough(proxy: ProxySettings, url: string, init: RequestInit): Promise<Response> {
  const { EnvHttpProxyAgent, fetch } = await import("undici");
  const dispatcher = new EnvHttpProxyAgent(proxyOptions(proxy));
  try {
    const response = await fetch(url, { ...(init as object), dispatcher });
    return response as unknown as Response;
  } finally {
    void dispatcher.close(); // waits for the body
  }
}

/** undici's error for a refused tunnel, in the words of this SDK; other errors unchanged. */
export function proxyError(error: Error): Error {
  const status = /^Proxy response \((\d+)\)/.exec(error.message)?.[1];
  if (status === undefined) return error;
  const advice = status === "407" ? "; check the user name and the password of the proxy" : "";
  return new Error(`the proxy answered ${status} instead of opening the connection${advice}`);
}
