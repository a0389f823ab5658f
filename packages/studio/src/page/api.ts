/** Calls the server with the same routes and codecs as the SDK. Requests are authenticated by a cookie that scripts cannot read. */
import { encodeBy, type Message, type RequestOf, type ResponseOf, restRoutes } from "@tinklet/wire";

/** A failed call, with a message for the user. */
export class CallError extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

const unreachable = "The server does not respond. Is it running? This page reconnects automatically.";

/** Sends a request. @throws {@link CallError} */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, credentials: "same-origin", redirect: "error" });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new CallError(unreachable, 0);
  }
  if (response.ok) return response;
  throw new CallError(await problemOf(response), response.status);
}

async function problemOf(response: Response): Promise<string> {
  const body = (await response.json().catch(() => undefined)) as
    | { detail?: unknown; error?: { message?: unknown } }
    | undefined;
  const detail = body?.detail ?? body?.error?.message;
  return typeof detail === "string" ? detail : `The server answered ${response.status}.`;
}

/** The routes that the page calls. Training and sampling have codecs for tensors, which the script does not contain. */
type RestOperation = keyof typeof restRoutes;

/** Calls a route of the contract. @throws {@link CallError} */
export async function call<K extends RestOperation>(operation: K, request: RequestOf<K>): Promise<ResponseOf<K>> {
  const { method, path, query, body } = encodeBy(restRoutes[operation], operation, request);
  const response = await send(`${path}${query === "" ? "" : `?${query}`}`, {
    method,
    ...(method === "GET" ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body ?? {}) }),
  });
  const { response: schema } = restRoutes[operation] as { response?: Message<unknown> };
  const json: unknown = await response.json();
  return (schema === undefined ? json : schema.decode(json)) as ResponseOf<K>;
}

/** Posts JSON to a path under `/studio`. @throws {@link CallError} */
export const post = (path: string, body: unknown = {}): Promise<Response> =>
  send(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/** Reads a stream of server-sent events until it ends. */
export async function* readEvents(response: Response): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = text
        .slice(0, end)
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).trimStart());
      text = text.slice(end + 2);
      if (data.length > 0) yield data.join("\n");
    }
  }
}
