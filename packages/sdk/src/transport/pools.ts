/**
 * Socket limits per pool, and the HTTP implementation: undici's pools on Node; `fetch` elsewhere, or if the caller passes one.
 */

import type { Pool } from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { InvalidInputError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { environment, isNode } from "./environment.ts";
import { type Exchange, FetchExchange, type FetchLike, type HttpRequest, type HttpResponse } from "./exchange.ts";
import type { ProxySettings } from "./proxy.node.ts";

/** Maximum number of sockets per pool. */
export type MaxSockets = Readonly<Record<Pool, number>>;

/** A poll holds its socket while it waits, so `retrieve` has one socket per concurrent sample. */
export const defaultMaxSockets: MaxSockets = {
  session: 50,
  train: 50,
  sample: 50,
  retrieve: 2_000,
  rest: 50,
  redirect: 50,
  telemetry: 50,
};

export interface ExchangeOptions {
  readonly fetch?: FetchLike | undefined;
  readonly clock: Clock;
  readonly maxSockets: MaxSockets;
  readonly maxResponseBytes?: number | undefined;
  /** Clock whose timers do not keep the process alive. @defaultValue `clock` */
  readonly background?: Clock | undefined;
  readonly http2?: boolean | undefined;
  readonly proxy?: ProxySettings | undefined;
  /** Receives credentials of the proxy, for redaction. */
  readonly onSecret?: ((secret: string) => void) | undefined;
}

/**
 * The HTTP implementation for this runtime. undici is imported on the first request.
 *
 * @throws {@link InvalidInputError} naming `proxy` or `http2` where they cannot work.
 */
export function createExchange(options: ExchangeOptions): Exchange {
  const { clock, maxResponseBytes } = options;
  const limits = omitUndefined({ maxResponseBytes });
  if (options.fetch !== undefined || !isNode()) {
    for (const name of ["proxy", "http2"] as const) {
      if (options[name]) throw new InvalidInputError(name, "works only on Node and without the option fetch");
    }
    const fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init));
    return new FetchExchange({ fetch, clock, ...limits });
  }
  return new LazyExchange(async () => {
    const { UndiciExchange } = await import("./undici-exchange.node.ts");
    return new UndiciExchange({ ...options, http2: options.http2 ?? environment("TINKLET_HTTP2") === "1" });
  });
}

class LazyExchange implements Exchange {
  readonly #load: () => Promise<Exchange>;
  #loading: Promise<Exchange> | undefined;
  #loaded: Exchange | undefined;

  constructor(load: () => Promise<Exchange>) {
    this.#load = load;
  }

  send(request: HttpRequest): Promise<HttpResponse> {
    if (this.#loaded !== undefined) return this.#loaded.send(request);
    this.#loading ??= this.#load().then((exchange) => {
      this.#loaded = exchange;
      return exchange;
    });
    return this.#loading.then((exchange) => exchange.send(request));
  }

  async close(): Promise<void> {
    await (await this.#loading?.catch(() => undefined))?.close();
  }
}
