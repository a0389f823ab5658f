/**
 * In place of `Response` in the simulator's process: an answer in one piece is kept as its bytes. A `Response` whose body is a stream costs a
 * tenth of a simulation. Bodies that are streams get a real one.
 */
const RealResponse = globalThis.Response;

const encoder = new TextEncoder();
const utf8 = new TextDecoder();

/** A reader of what is in memory. */
export const readerOf = (bytes: Uint8Array | null) => {
  let left = bytes === null || bytes.byteLength === 0 ? undefined : bytes;
  return {
    read: async () => {
      const value = left;
      left = undefined;
      return { done: value === undefined, value };
    },
    cancel: async () => {},
  };
};

/** As much of `Headers` as client and server read. */
export class PlainHeaders {
  readonly #values = new Map<string, string>();

  constructor(init: HeadersInit = {}) {
    const pairs = init instanceof PlainHeaders ? init.#values : Symbol.iterator in init ? init : Object.entries(init);
    for (const [name, value] of pairs as Iterable<readonly [string, string]>) this.set(name, value);
  }

  get(name: string): string | null {
    return this.#values.get(name.toLowerCase()) ?? null;
  }

  has(name: string): boolean {
    return this.#values.has(name.toLowerCase());
  }

  set(name: string, value: string): void {
    this.#values.set(name.toLowerCase(), String(value));
  }

  [Symbol.iterator](): Iterator<[string, string]> {
    return this.#values[Symbol.iterator]();
  }
}

class PlainResponse {
  readonly type = "basic";
  readonly status: number;
  readonly headers: PlainHeaders;
  readonly #bytes: Uint8Array | null;

  constructor(body: unknown = null, { status = 200, headers }: ResponseInit = {}) {
    this.status = status;
    this.headers = new PlainHeaders(headers);
    this.#bytes = null;
    if (typeof body === "string") this.#bytes = encoder.encode(body);
    else if (body instanceof Uint8Array) this.#bytes = body;
    // biome-ignore lint/correctness/noConstructorReturn: a body that is a stream gets a real response
    else if (body !== null) return new RealResponse(body as BodyInit, { status, headers: [...this.headers] }) as never;
  }

  static json(value: unknown, init: ResponseInit = {}): PlainResponse {
    return new PlainResponse(JSON.stringify(value), { headers: { "content-type": "application/json" }, ...init });
  }

  static [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof RealResponse || (typeof value === "object" && value !== null && #bytes in value);
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  get body(): ReadableStream<Uint8Array> | null {
    const bytes = this.#bytes;
    return bytes === null ? null : ({ getReader: () => readerOf(bytes) } as unknown as ReadableStream<Uint8Array>);
  }

  async bytes(): Promise<Uint8Array> {
    return this.#bytes ?? new Uint8Array(0);
  }

  async arrayBuffer(): Promise<ArrayBufferLike> {
    return (await this.bytes()).slice().buffer;
  }

  async text(): Promise<string> {
    return utf8.decode(await this.bytes());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }
}

/** The body of an answer: the whole of it, or what was sent until its reader left. */
export async function bytesOf(response: Response, left: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  if (!(response instanceof RealResponse))
    return (await (response as unknown as PlainResponse).bytes()) as Uint8Array<ArrayBuffer>;
  const reader = response.body?.getReader();
  const leave = () => void reader?.cancel().catch(() => {});
  left.addEventListener("abort", leave, { once: true });
  if (left.aborted) leave();
  const parts: Uint8Array[] = [];
  for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) parts.push(part.value);
  left.removeEventListener("abort", leave);
  return new Uint8Array(Buffer.concat(parts));
}

/** Replaces `Response` for the whole process. */
export function replaceResponse(): void {
  globalThis.Response = PlainResponse as unknown as typeof Response;
}
