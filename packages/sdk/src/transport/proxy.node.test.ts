import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { systemClock } from "@tinklet/wire/clock";
import { APIConnectionError, InvalidInputError } from "@tinklet/wire/errors";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { RestClient } from "../clients/rest/rest-client.ts";
import { ServiceClient } from "../clients/service-client.ts";
import { failure } from "../testing/harness.ts";
import { listen } from "../testing/stub-listener.node.ts";
import { StubServer } from "../testing/stub-server.ts";
import { listenStubTls, listenTls } from "../testing/tls.node.ts";
import type { HttpRequest } from "./exchange.ts";
import { createExchange, defaultMaxSockets } from "./pools.ts";
import { fetchThrough, type ProxySettings, proxyOptions } from "./proxy.node.ts";

const password = "s3cret/pass word";
const encoded = Buffer.from(`me:${password}`).toString("base64");
const open: (() => Promise<void>)[] = [];
beforeEach(() => {
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  for (const name of ["http_proxy", "https_proxy", "no_proxy"]) {
    vi.stubEnv(name, undefined);
    vi.stubEnv(name.toUpperCase(), undefined);
  }
});
afterEach(async () => {
  for (const close of open.splice(0)) await close();
  vi.unstubAllEnvs();
});

/** A proxy that opens tunnels, to those who know the password if it wants one. */
async function serveProxy(options: { readonly wants?: string; readonly refuses?: number } = {}) {
  const tunnels: IncomingMessage[] = [];
  const server = createServer();
  server.on("connect", (request, client) => {
    tunnels.push(request);
    client.on("error", () => {});
    const refused =
      options.refuses ??
      (options.wants === undefined || request.headers["proxy-authorization"] === options.wants ? undefined : 407);
    if (refused !== undefined) return void client.end(`HTTP/1.1 ${refused} No\r\ncontent-length: 0\r\n\r\n`);
    const [host, port] = (request.url ?? "").split(":");
    const upstream = connect(Number(port), host, () => {
      client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      upstream.pipe(client).pipe(upstream);
    });
    upstream.on("error", () => client.end("HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n"));
    client.on("close", () => upstream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  const withUser = `http://me:${encodeURIComponent(password)}@127.0.0.1:${port}`;
  return { url: `http://127.0.0.1:${port}`, withUser, tunnels };
}

async function serve() {
  const seen: IncomingMessage["headers"][] = [];
  const listener = await listenTls((request, response) => {
    seen.push(request.headers);
    request.resume();
    response.end("through");
  });
  open.push(() => listener.close());
  return { ...listener, seen };
}

function exchange(proxy: ProxySettings | undefined, more: { http2?: boolean } = {}) {
  const made = createExchange({
    clock: systemClock({ ref: true }),
    maxSockets: defaultMaxSockets,
    proxy,
    ...more,
  });
  open.unshift(() => made.close());
  return made;
}

const asking = (url: string): HttpRequest => ({
  method: "POST",
  url: `${url}/api`,
  headers: { "x-a": "b" },
  body: "{}",
  pool: "retrieve",
  timeoutMs: 5_000,
  signal: undefined,
});
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

it("M-808: the option proxy opens a tunnel with the user's name, the password and the headers, which the server does not see", async () => {
  const { url, seen } = await serve();
  const proxy = await serveProxy({ wants: `Basic ${encoded}` });
  const one = exchange({ url: proxy.withUser, headers: { "X-Team": "blue" } });
  expect(text((await one.send(asking(url))).body)).toBe("through");
  expect(proxy.tunnels).toHaveLength(1);
  expect(proxy.tunnels[0]?.url).toBe(new URL(url).host);
  expect(proxy.tunnels[0]?.headers).toMatchObject({ "proxy-authorization": `Basic ${encoded}`, "x-team": "blue" });
  expect(seen[0]).toMatchObject({ "x-a": "b" });
  expect(Object.keys(seen[0] ?? {}).filter((name) => /proxy|x-team/.test(name))).toEqual([]);
});

it("M-808: the option takes the place of the environment; noProxy excludes hosts", async () => {
  const { url } = await serve();
  const [ours, fromEnvironment] = [await serveProxy(), await serveProxy()];
  vi.stubEnv("HTTPS_PROXY", fromEnvironment.url);
  vi.stubEnv("NO_PROXY", "127.0.0.1");
  await exchange(ours.url).send(asking(url));
  expect([ours.tunnels.length, fromEnvironment.tunnels.length]).toEqual([1, 0]);
  await exchange({ url: ours.url, noProxy: "127.0.0.1" }).send(asking(url));
  expect([ours.tunnels.length, fromEnvironment.tunnels.length]).toEqual([1, 0]);
});

it("through a proxy, polls use HTTP/1.1", async () => {
  const { url, opened } = await serve();
  const proxy = await serveProxy();
  await exchange(proxy.url, { http2: true }).send(asking(url));
  expect([proxy.tunnels.length, opened.sessions]).toEqual([1, 0]);
});

it("a proxy that refuses is named with its status, without the credentials", async () => {
  const { url } = await serve();
  const wrong = await serveProxy({ wants: "Basic other" });
  const refused = await failure(exchange(wrong.withUser).send(asking(url)));
  expect(refused).toBeInstanceOf(APIConnectionError);
  expect(refused.message).toMatch(
    /: the proxy answered 407 instead of opening the connection; check the user name and the password of the proxy$/,
  );
  const forbidding = await serveProxy({ refuses: 403 });
  const forbidden = await failure(exchange(forbidding.withUser).send(asking(url)));
  expect(forbidden.message).toMatch(/: the proxy answered 403 instead of opening the connection$/);
  const nothing = await failure(exchange(`http://me:${encodeURIComponent(password)}@127.0.0.1:1`).send(asking(url)));
  for (const error of [refused, forbidden, nothing]) {
    expect(inspect(error, { depth: 10, showHidden: true })).not.toMatch(/s3cret|bWU6|pass(%20| )word/);
  }
});

it("a client's calls go through the proxy, and its logs and errors have no credentials", async () => {
  const stub = new StubServer({
    // A server that repeats what it was sent in an error.
    faults: ({ operation }) =>
      operation === "listSessions"
        ? { kind: "status", status: 400, body: { error: `${encoded} ${password}` } }
        : undefined,
  });
  const listener = await listenStubTls(stub);
  open.push(() => listener.close());
  const proxy = await serveProxy({ wants: `Basic ${encoded}` });
  const lines: unknown[] = [];
  const log = (...parts: unknown[]) => void lines.push(parts);
  const service = new ServiceClient({
    apiKey: "tml-x",
    baseUrl: listener.url,
    proxy: proxy.withUser,
    logLevel: "debug",
    logger: { debug: log, info: log, warn: log, error: log },
    onEvent: log,
  });
  const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
  const { sequences } = await sampler.sample([1, 2], { samplingParams: { maxTokens: 2 } });
  expect(sequences[0]?.tokens).toHaveLength(2);
  const error = await failure(service.createRestClient().listSessions());
  await service.close();
  expect(proxy.tunnels.length).toBeGreaterThan(0);
  expect(proxy.tunnels.every(({ url }) => url === new URL(listener.url).host)).toBe(true);
  expect(error.message).toContain("[redacted]");
  expect(lines.length).toBeGreaterThan(0);
  for (const shown of [lines, error]) expect(inspect(shown, { depth: 10 })).not.toMatch(/s3cret|bWU6/);
});

it("downloads of checkpoints go through the proxy, whole and with the credentials", async () => {
  const { url } = await serve();
  const proxy = await serveProxy({ wants: `Basic ${encoded}` });
  const response = await fetchThrough(proxy.withUser, url, {});
  expect(await response.text()).toBe("through");
  expect(proxy.tunnels[0]?.url).toBe(new URL(url).host);
  await expect(fetchThrough({ url: proxy.withUser, noProxy: "127.0.0.1" }, url, {})).resolves.toMatchObject({
    status: 200,
  });
  expect(proxy.tunnels).toHaveLength(1);

  const stub = new StubServer();
  const api = await listen(stub);
  open.push(() => api.close());
  const rest = new RestClient({
    apiKey: "tml-x",
    baseUrl: api.url,
    proxy: { url: proxy.withUser, noProxy: "127.0.0.1" },
  });
  open.unshift(() => rest.close());
  const { url: link } = await rest.getCheckpointArchiveUrl("run", "weights/x");
  const folder = await mkdtemp(join(tmpdir(), "proxy-"));
  open.push(() => rm(folder, { recursive: true }));
  await failure(rest.downloadCheckpoint("tinker://run/weights/x", join(folder, "out"))); // the host does not exist
  const { hostname, protocol, port } = new URL(link);
  expect(proxy.tunnels.at(-1)?.url).toBe(`${hostname}:${port || (protocol === "https:" ? 443 : 80)}`);
});

it.each([
  ["a word", "proxy.example", /^proxy\.url: must be an absolute URL/],
  ["another protocol", { url: `socks5://me:${password}@x` }, /^proxy\.url: must be an absolute URL/],
  ["no URL", {}, /^proxy\.url: must be an absolute URL/],
  ["an unknown field", { url: "http://x", user: "me" }, /user/],
  ["a header that is no string", { url: "http://x", headers: { a: 1 } }, /^proxy\.headers\.a: must be a string, got 1/],
  ["a number", 3128, /^proxy: must be a URL or an object with url, got 3128/],
])("an invalid proxy is an error that names the field and no credentials: %s", async (_, proxy, message) => {
  const read = () => proxyOptions(proxy as ProxySettings);
  expect(read).toThrow(InvalidInputError);
  expect(read).toThrow(message);
  const error = await failure(exchange(proxy as ProxySettings).send(asking("https://127.0.0.1:1")));
  expect(error).toBeInstanceOf(InvalidInputError);
  expect(inspect(error)).not.toContain(password);
});

it("credentials of the URL and of headers are given for redaction", () => {
  const secrets: string[] = [];
  const url = `http://me:${encodeURIComponent(password)}@x:1`;
  const options = proxyOptions({ url, headers: { "Proxy-Authorization": "Bearer token-1" } }, (one) =>
    secrets.push(one),
  );
  expect(secrets).toEqual([encoded, encodeURIComponent(password), password, "token-1"]);
  expect(options).toEqual({
    httpProxy: "http://x:1/",
    httpsProxy: "http://x:1/",
    noProxy: "",
    headers: { "proxy-authorization": "Bearer token-1" },
  });
});

it("proxy and http2 are errors where they cannot work", () => {
  const common = { clock: systemClock(), maxSockets: defaultMaxSockets, fetch: async () => new Response() };
  expect(() => createExchange({ ...common, proxy: "http://x" })).toThrow(/^proxy: works only on Node and without/);
  expect(() => createExchange({ ...common, http2: true })).toThrow(/^http2: works only on Node and without/);
  expect(() => new ServiceClient({ apiKey: "tml-x", fetch: common.fetch, http2: true })).toThrow(InvalidInputError);
});
