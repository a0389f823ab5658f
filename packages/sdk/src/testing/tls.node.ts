/**
 * A TLS server for tests: a certificate made by `node:crypto` at test time, for 127.0.0.1 and localhost, and HTTP/2 or HTTP/1.1 on one
 * port. Clients accept the certificate with `NODE_TLS_REJECT_UNAUTHORIZED=0`.
 */
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import type { RequestListener } from "node:http";
import {
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type SecureServerOptions,
  type ServerHttp2Session,
} from "node:http2";
import { createServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import type { StubServer } from "./stub-server.ts";

/** An element of DER: tag, length, content. */
function der(tag: number, ...content: readonly Uint8Array[]): Uint8Array {
  const body = Buffer.concat(content);
  const { length } = body;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Uint8Array.of(tag, ...size), body]);
}
const sequence = (...content: readonly Uint8Array[]) => der(0x30, ...content);
const bytes = (...values: readonly number[]) => Uint8Array.from(values);
const ascii = (text: string) => new TextEncoder().encode(text);

const ecdsaWithSha256 = sequence(der(0x06, bytes(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02)));
const commonName = sequence(der(0x31, sequence(der(0x06, bytes(0x55, 4, 3)), der(0x0c, ascii("localhost")))));
const validity = sequence(der(0x17, ascii("200101000000Z")), der(0x17, ascii("491231235959Z")));
const alternativeNames = sequence(
  der(0x06, bytes(0x55, 0x1d, 0x11)),
  der(0x04, sequence(der(0x82, ascii("localhost")), der(0x87, bytes(127, 0, 0, 1)))),
);

function certificate(publicKey: KeyObject, privateKey: KeyObject): string {
  const signed = sequence(
    der(0xa0, der(0x02, bytes(2))), // version 3
    der(0x02, bytes(1)), // serial number
    ecdsaWithSha256,
    commonName,
    validity,
    commonName,
    publicKey.export({ format: "der", type: "spki" }),
    der(0xa3, sequence(alternativeNames)),
  );
  const signature = der(0x03, bytes(0), sign("sha256", signed, privateKey));
  const encoded = Buffer.from(sequence(signed, ecdsaWithSha256, signature)).toString("base64");
  return `-----BEGIN CERTIFICATE-----\n${encoded.replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`;
}

/** A new key and its self-signed certificate, as PEM. */
export function selfSigned(): { key: string; cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = privateKey.export({ format: "pem", type: "pkcs8" }) as string;
  return { key, cert: certificate(publicKey, privateKey) };
}

/** A listening TLS server. */
export interface TlsListener {
  readonly url: string;
  readonly port: number;
  /** The HTTP/2 sessions that are open. */
  readonly sessions: ReadonlySet<ServerHttp2Session>;
  /** The TCP connections that are open. */
  readonly sockets: ReadonlySet<Socket>;
  /** HTTP/2 sessions and TLS sockets opened in total. */
  readonly opened: { sessions: number; sockets: number };
  close(): Promise<void>;
}

/** Serves HTTP/2 and HTTP/1.1 on a free port of this machine; `http1Only` offers no HTTP/2. */
export async function listenTls(
  onRequest: (request: Http2ServerRequest, response: Http2ServerResponse) => void,
  { http1Only = false, ...options }: { readonly http1Only?: boolean } & Pick<SecureServerOptions, "settings"> = {},
): Promise<TlsListener> {
  const server = http1Only
    ? createServer(selfSigned(), onRequest as unknown as RequestListener)
    : createSecureServer({ ...selfSigned(), allowHTTP1: true, ...options }, onRequest);
  const sessions = new Set<ServerHttp2Session>();
  const sockets = new Set<Socket>();
  const opened = { sessions: 0, sockets: 0 };
  server.on("session", (session: ServerHttp2Session) => {
    opened.sessions++;
    sessions.add(session);
    session.on("error", () => {});
    session.on("close", () => sessions.delete(session));
  });
  server.on("secureConnection", (socket: Socket) => {
    opened.sockets++;
    socket.on("error", () => {});
  });
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.on("sessionError", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4096, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://127.0.0.1:${port}`,
    port,
    sessions,
    sockets,
    opened,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

/** Serves a stub over TLS; `onRequest` receives each request's protocol (`1.1`, `2.0`) and path. */
export function listenStubTls(
  stub: StubServer,
  onRequest: (protocol: string, path: string) => void = () => {},
): Promise<TlsListener> {
  const serve = async (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const { method, url: path, httpVersion } = request;
    onRequest(httpVersion, path);
    const headers = Object.fromEntries(
      Object.entries(request.headers).flatMap(([name, value]) => (name.startsWith(":") ? [] : [[name, String(value)]])),
    );
    const answer = await stub.handle({ method, path, headers, body: new Uint8Array(await buffer(request)) });
    response.writeHead(answer.status, answer.headers).end(answer.body);
  };
  return listenTls((request, response) => void serve(request, response));
}
