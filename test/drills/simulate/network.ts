/**
 * The network between the clients and the server: each request and each answer is an event that may be late, lost, doubled or cut. Also
 * what stands in the way of a real server: proxies that answer by themselves, older releases, and the flags of the configuration.
 */
import { baseUrl } from "./host.ts";
import { madeUpIds } from "./mistakes.ts";
import { bytesOf, PlainHeaders, readerOf } from "./plain-response.ts";
import type { Random } from "./random.ts";
import type { Owner, Scheduler } from "./scheduler.ts";

/** How often things go wrong; probabilities per exchange. */
export interface NetworkFaults {
  readonly delayMs: number;
  readonly longDelay: number;
  readonly lostRequest: number;
  readonly lostAnswer: number;
  readonly doubled: number;
  readonly cut: number;
  readonly halfOpen: number;
  readonly refusedStatus: number;
  /** The service has lost a result: 410 to a poll. */
  readonly expired: number;
  /** Polls are answered as the hosted service may and Tinklet's server does not: the size first, a limit on models, a page of a proxy. */
  readonly oddPoll: number;
}

/** A time in which one client's requests do not arrive, or none of their answers do. */
interface Outage {
  readonly untilMs: number;
  readonly what: "requests" | "answers";
}

export const noFaults: NetworkFaults = {
  delayMs: 5,
  longDelay: 0,
  lostRequest: 0,
  lostAnswer: 0,
  doubled: 0,
  cut: 0,
  halfOpen: 0,
  refusedStatus: 0,
  expired: 0,
  oddPoll: 0,
};

/** An answer that Tinklet's server does not give. */
interface OddAnswer {
  readonly name: string;
  readonly status: number;
  readonly body: string;
  /** Content type. @defaultValue JSON */
  readonly type?: string | null;
}

/** Odd answers to `retrieve_future`. */
const oddPolls: readonly OddAnswer[] = [
  { name: "size", status: 200, body: '{"status":"complete_metadata","response_payload_size":1000}' },
  { name: "size unknown", status: 200, body: '{"status":"complete_metadata"}' },
  { name: "page", status: 200, body: "<html>sign in to the network</html>" },
  { name: "rate limit", status: 200, body: '{"type":"try_again","queue_state":"paused_rate_limit"}' },
  { name: "capacity", status: 200, body: '{"type":"try_again","queue_state":"paused_capacity"}' },
  {
    name: "late",
    status: 408,
    body: '{"type":"try_again","queue_state":"paused_capacity","queue_state_reason":"busy"}',
  },
  { name: "late without a reason", status: 408, body: "" },
  { name: "bad request", status: 400, body: '{"detail":"what?"}' },
  { name: "large size", status: 200, body: '{"status":"complete_metadata","response_payload_size":900000000}' },
  { name: "binary", status: 200, body: "\u0000\u0001", type: "application/x-protobuf" },
  { name: "no type", status: 200, body: "", type: null },
];
/** Odd answers to `retrieve_futures`. */
const oddPages = oddPolls.filter(({ name }) => /^(page|bad request|no type)$/.test(name));

/** `Server-Timing` as proxies write it, beside the server's or in its place. */
const oddTimings = ["cdn-cache;desc=HIT", "queue;dur=3, cdn;dur=1", "compute;dur=x;dur=4", ", ;dur=1"] as const;

/** What a release of a server has, as far as clients can tell. */
export interface Profile {
  readonly name: string;
  /** Overrides of `client/config` and of `client/dynamic_config`. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly dynamic: Readonly<Record<string, unknown>> | undefined;
  /** Paths that the release does not know. */
  readonly unknown: readonly RegExp[];
}

export interface Server {
  readonly owner: Owner;
  readonly fetch: (request: Request) => Promise<Response>;
}

export interface NetworkOptions {
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly faults: () => NetworkFaults;
  readonly profile: Profile;
  /** The server that runs now. */
  readonly server: () => Server | undefined;
  /** Told of an answer that no server may give. */
  readonly problem: (text: string) => void;
}

/** Faults that a proxy or a busy service answers with. 409 and 4xx with `x-should-retry` are among them. */
const proxyAnswers: readonly {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}[] = [
  { status: 401, body: '{"detail":"the token has expired"}' },
  { status: 402, body: '{"detail":"billing"}' },
  { status: 408, body: '{"detail":"timeout"}' },
  { status: 409, body: '{"detail":"conflict"}' },
  { status: 409, headers: { "x-should-retry": "true" }, body: '{"detail":"conflict"}' },
  { status: 429, headers: { "retry-after": "1" }, body: '{"detail":"slow down"}' },
  { status: 500, body: '{"detail":"failed"}' },
  { status: 502, body: "<html>bad gateway</html>" },
  { status: 503, headers: { "retry-after-ms": "200" }, body: '{"detail":"busy"}' },
  { status: 504 },
  { status: 400 },
];

const failure = (code: string): TypeError =>
  new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });

interface Call {
  readonly url: string;
  readonly init: RequestInit;
  readonly answer: (response: Response) => void;
  readonly fail: (error: Error) => void;
  readonly leave: AbortController;
}

interface Exchange {
  readonly server: Owner;
  readonly fail: (error: Error) => void;
  readonly leave: AbortController;
}

export class Network {
  readonly #options: NetworkOptions;
  readonly #open = new Set<Exchange>();
  readonly #oddAgain = new Map<string, OddAnswer>();
  readonly #outages = new Map<Owner, Outage>();
  /** Exchanges by how they ended. */
  readonly counts = new Map<string, number>();

  constructor(options: NetworkOptions) {
    this.#options = options;
  }

  get open(): number {
    return this.#open.size;
  }

  /** The server's process is gone: its connections are reset, or stay half open. */
  reset(server: Owner): void {
    for (const exchange of [...this.#open]) {
      if (exchange.server !== server) continue;
      this.#open.delete(exchange);
      exchange.fail(failure("ECONNRESET"));
    }
  }

  /** Cuts one client off in one direction. */
  cutOff(client: Owner, what: Outage["what"], ms: number): void {
    this.#count(`outages of ${what}`);
    this.#outages.set(client, { untilMs: this.#options.scheduler.now + ms, what });
  }

  #isCut(client: Owner, what: Outage["what"]): boolean {
    const outage = this.#outages.get(client);
    return outage?.what === what && outage.untilMs > this.#options.scheduler.now;
  }

  /** A function like `fetch` for one client. */
  fetchOf(client: Owner): (url: string, init: RequestInit) => Promise<Response> {
    const { scheduler, random } = this.#options;
    return (url, init) =>
      new Promise((resolve, reject) => {
        const { signal } = init;
        let over = false;
        const leave = new AbortController();
        const settle = (end: () => void) => {
          if (over) return;
          over = true;
          signal?.removeEventListener("abort", aborted);
          end();
        };
        const aborted = () => {
          settle(() => reject(signal?.reason as Error));
          // The server learns of it when the connection closes, or never.
          if (!random.chance(0.1))
            scheduler.after(client, this.#delay(), "disconnect", () => leave.abort(new Error("client left")));
        };
        if (signal?.aborted === true) return reject(signal.reason);
        signal?.addEventListener("abort", aborted, { once: true });
        const answer = (response: Response) => settle(() => resolve(response));
        const fail = (error: Error) => settle(() => reject(error));
        this.#send(client, { url, init, answer, fail, leave });
      });
  }

  #delay(): number {
    const { random } = this.#options;
    const { delayMs, longDelay } = this.#options.faults();
    return random.chance(longDelay) ? random.fraction() * 90_000 : random.fraction() * delayMs;
  }

  #count(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }

  #send(client: Owner, call: Call): void {
    const { scheduler, random, faults, profile } = this.#options;
    const path = pathOf(call.url);
    const label = `${call.init.method ?? "GET"} ${path.replace(/[0-9a-f-]{20,}/g, "…")}`;
    const rates = faults();
    if (this.#isCut(client, "requests")) {
      this.#count("cut off");
      if (random.chance(0.2)) return; // no answer until the client's own deadline
      scheduler.after(client, this.#delay(), `cut off ${label}`, () => call.fail(failure("EHOSTUNREACH")));
      return;
    }
    if (path === "retrieve_future" && random.chance(rates.expired)) {
      this.#count("expired");
      scheduler.after(client, this.#delay(), `410 ${label}`, () => {
        call.answer(Response.json({ detail: "the result has expired" }, { status: 410 }));
      });
      return;
    }
    const again = this.#oddAgain.get(String(call.init.body));
    const odds = path === "retrieve_future" ? oddPolls : path === "retrieve_futures" ? oddPages : undefined;
    if (odds !== undefined && (random.chance(rates.oddPoll) || (rates.oddPoll > 0 && again !== undefined))) {
      const odd = again ?? random.pick(odds);
      const { name, status, body, type = "application/json" } = odd;
      // Some polls are answered in the same way a few times.
      if (random.chance(0.6)) this.#oddAgain.set(String(call.init.body), odd);
      else this.#oddAgain.delete(String(call.init.body));
      this.#count(`odd poll: ${name}`);
      scheduler.after(client, this.#delay(), `odd poll ${name} ${label}`, () => {
        call.answer(new Response(body, { status, ...(type === null ? {} : { headers: { "content-type": type } }) }));
      });
      return;
    }
    if (random.chance(rates.refusedStatus)) {
      const { status, headers = {}, body = null } = random.pick(proxyAnswers);
      this.#count(`proxy ${status}`);
      scheduler.after(client, this.#delay(), `proxy ${status} ${label}`, () => {
        call.answer(new Response(body, { status, headers: { "content-type": "application/json", ...headers } }));
      });
      return;
    }
    if (random.chance(rates.halfOpen)) {
      this.#count("half open");
      return; // nothing comes, until the client's own deadline
    }
    if (random.chance(rates.lostRequest)) {
      this.#count("lost request");
      scheduler.after(client, this.#delay(), `lost ${label}`, () => call.fail(failure("ECONNRESET")));
      return;
    }
    if (profile.unknown.some((pattern) => pattern.test(path))) {
      scheduler.after(client, this.#delay(), `404 ${label}`, () => {
        call.answer(Response.json({ detail: "Not Found" }, { status: 404 }));
      });
      return;
    }
    const doubled = random.chance(rates.doubled);
    scheduler.after(client, this.#delay(), label, () => this.#arrive(client, call, label, true));
    if (doubled) {
      this.#count("doubled");
      scheduler.after(client, this.#delay() * 2, `again ${label}`, () => this.#arrive(client, call, label, false));
    }
  }

  /** @param awaited - whether the client reads this answer; it reads one of those to a request that was doubled */
  #arrive(client: Owner, { url, init, answer, fail, leave }: Call, label: string, awaited: boolean): void {
    const { scheduler, random, faults, server } = this.#options;
    const target = server();
    if (target === undefined) {
      if (awaited) fail(failure("ECONNREFUSED"));
      return;
    }
    const exchange: Exchange = { server: target.owner, fail: awaited ? fail : () => {}, leave };
    this.#open.add(exchange);
    const request = arrivedRequest(url, init, leave.signal);
    void (async () => {
      const response = await target.fetch(request);
      const body = await bytesOf(response, leave.signal);
      this.#open.delete(exchange);
      // Clients of the simulation ask for their own requests only, and for none that was not acknowledged.
      if (response.status === 404 && /\/(retrieve_future|cancel_future)$/.test(url) && !isMadeUp(init.body)) {
        this.#options.problem(`${client.name}: an acknowledged request is not known: ${String(init.body)}`);
      }
      if (!awaited) return;
      const rates = faults();
      const status = `${response.status} ${label}`;
      if (this.#isCut(client, "answers") || random.chance(rates.lostAnswer)) {
        this.#count("lost answer");
        scheduler.after(client, this.#delay(), `lost answer ${status}`, () => fail(failure("ECONNRESET")));
        return;
      }
      if (random.chance(rates.cut) && body.byteLength > 0) {
        this.#count("cut");
        const part = body.slice(0, random.below(body.byteLength));
        scheduler.after(client, this.#delay(), `cut ${status}`, () => {
          const stream = new ReadableStream<Uint8Array>({
            start: (controller) => {
              controller.enqueue(part);
              scheduler.after(client, this.#delay(), "cut", () => controller.error(failure("ECONNRESET")));
            },
          });
          answer(new Response(stream, { status: response.status, headers: response.headers }));
        });
        return;
      }
      this.#count("answered");
      const seen = this.#rewritten(url, response, body);
      const headers = new PlainHeaders(response.headers);
      if (rates.oddPoll > 0 && headers.has("server-timing") && random.chance(0.2))
        headers.set("server-timing", random.pick(oddTimings));
      scheduler.after(client, this.#delay(), status, () => {
        const { status: code } = response;
        answer(new Response(bodyless(code) ? null : seen, { status: code, headers: headers as never }));
      });
    })();
  }

  /** The configuration as the release of the profile tells it. */
  #rewritten(url: string, response: Response, body: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const { profile } = this.#options;
    if (response.status !== 200) return body;
    const flags = url.endsWith("/client/config") ? profile.flags : /dynamic/.test(url) ? profile.dynamic : undefined;
    if (flags === undefined) return body;
    const answer = JSON.parse(new TextDecoder().decode(body)) as Record<string, unknown>;
    return new TextEncoder().encode(JSON.stringify({ ...answer, ...flags }));
  }
}

/** A request as far as the server reads it: a `Request` with its stream costs a tenth of a simulation. */
function arrivedRequest(url: string, init: RequestInit, signal: AbortSignal): Request {
  const sent = init.body as string | Uint8Array | undefined;
  const bytes = typeof sent === "string" ? new TextEncoder().encode(sent) : (sent ?? null);
  const headers = new PlainHeaders(init.headers);
  const body = bytes === null ? null : { getReader: () => readerOf(bytes) };
  return { url, method: init.method ?? "GET", headers, body, signal } as unknown as Request;
}

/** The path of a URL below the API's prefix. */
const pathOf = (url: string): string => {
  const path = url.slice(baseUrl.length).split("?", 1)[0]!;
  return path.startsWith(apiPrefix) ? path.slice(apiPrefix.length) : path;
};

const apiPrefix = "/api/v1/";

const isMadeUp = (body: unknown): boolean => madeUpIds.some((id) => String(body).includes(`"${id}"`));

const bodyless = (status: number): boolean => status === 204 || status === 304;
