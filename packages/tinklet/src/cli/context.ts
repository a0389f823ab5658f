/** The context of a running command: the service client, Ctrl-C, and the resources to close at the end. */
import { setMaxListeners } from "node:events";
import type { ServiceClient, TinkletEvent } from "@tinklet/sdk";
import type { FoundServer } from "@tinklet/sdk/environment";
import { environment, findRunningServer, localDataDir, localKey } from "@tinklet/sdk/environment";
import type { DeviceChoice } from "@tinklet/server";
import type { Studio } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import type { Output } from "./output/output.ts";
import type { Input } from "./parse.ts";

/** The bundled model's name on the local server. */
export const bundledModel = "tinklet/base";

export class Context {
  readonly output: Output;
  readonly #input: Input;
  readonly #interrupt = new AbortController();
  readonly #closers: (() => Promise<void>)[] = [];
  #service: Promise<ServiceClient> | undefined;
  /** Whether a local server stores nothing on disk. Set before the first call of `service()`. */
  keepsNothing = false;
  /** Whether notices of the engine are printed. Cleared by commands that report the engine's runtime themselves. */
  showsEngineNotices = true;
  /** The studio of a local server, which then listens on a port for browsers. Set before the first call of `service()`. */
  studio: Studio | undefined;
  /** A link to the studio that signs a browser in; `undefined` without a studio. */
  studioUrl: (place?: string) => string | undefined = () => undefined;
  /** Headers of every request. Set before the first call of `service()`. */
  headers: Readonly<Record<string, string>> = {};
  /** Whether a local command uses a running `tinklet serve`. */
  isAttached = false;
  /** Fetches URLs in the server's answers; an in-process server has no socket. */
  fetch: (url: string, init?: RequestInit) => Promise<Response> = (url, init) => fetch(url, init);

  constructor(input: Input, output: Output) {
    this.#input = input;
    this.output = output;
    setMaxListeners(0, this.signal); // every pending call adds a listener
    const onInterrupt = () => {
      if (this.#interrupt.signal.aborted) process.exit(130); // second Ctrl-C: exit now
      this.#interrupt.abort(new DOMException("Interrupted.", "AbortError"));
    };
    process.on("SIGINT", onInterrupt);
    process.on("SIGTERM", onInterrupt);
    this.#closers.push(async () => {
      process.off("SIGINT", onInterrupt);
      process.off("SIGTERM", onInterrupt);
    });
  }

  /** Aborted by Ctrl-C. */
  get signal(): AbortSignal {
    return this.#interrupt.signal;
  }

  /** Whether `--local` is set. */
  get isLocal(): boolean {
    return this.#input.flag("local");
  }

  /** Whether a key or a server is configured by options or the environment. */
  get hasServer(): boolean {
    const given = [this.#input.text("api-key"), this.#input.text("base-url")];
    const set = ["TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD"].map(environment);
    return this.isLocal || [...given, ...set].some((one) => one !== undefined);
  }

  /** The data folder of a local server; `undefined` for one that stores nothing. */
  get dataDir(): string | undefined {
    return this.keepsNothing ? undefined : localDataDir(this.#input.text("data-dir"));
  }

  /** Where a local server computes; `undefined` for its default, the CPU. */
  get device(): DeviceChoice | undefined {
    return this.#input.text("device") as DeviceChoice | undefined;
  }

  /** The client, created once. @param models - models of a local server. Default: the bundled model */
  service(models: readonly string[] = []): Promise<ServiceClient> {
    this.#service ??= this.#connect(models);
    return this.#service;
  }

  /** The client of a local server, also without `--local`. */
  startLocal(models: readonly string[]): Promise<ServiceClient> {
    this.#service ??= this.#connect(models, true);
    return this.#service;
  }

  async #connect(models: readonly string[], local = this.isLocal): Promise<ServiceClient> {
    const { ServiceClient } = await import("@tinklet/sdk");
    const common = {
      onEvent: (event: TinkletEvent) => this.#report(event),
      logLevel: "error" as const,
      userMetadata: { client: "tinklet-cli" },
      defaultHeaders: this.headers,
    };
    if (local) {
      const found = await this.#findServer(models);
      if (found !== undefined)
        return this.#keep(new ServiceClient({ ...common, apiKey: found.apiKey, baseUrl: found.url }));
      const { url, fetch, studioUrl } = await this.#startServer(models);
      this.fetch = fetch;
      this.studioUrl = studioUrl;
      return this.#keep(new ServiceClient({ ...common, apiKey: localKey, baseUrl: url, fetch }));
    }
    const apiKey = this.#input.text("api-key");
    const baseUrl = this.#input.text("base-url");
    const service = new ServiceClient({ ...common, apiKey, baseUrl });
    this.output.hideWith(service.redactor);
    return this.#keep(service);
  }

  /** The `tinklet serve` that uses the data folder, if one runs. */
  async #findServer(models: readonly string[]): Promise<FoundServer | undefined> {
    const { dataDir } = this;
    if (dataDir === undefined) return undefined;
    const found = await findRunningServer(dataDir, { models });
    if (found === undefined) return undefined;
    this.output.hide(found.apiKey);
    this.isAttached = true;
    this.output.note(`Using tinklet serve at ${found.url}, which uses ${dataDir}.`);
    // The page asks for a sign-in unless this browser has opened the link that `tinklet serve` printed.
    if (found.hasStudio) this.studioUrl = (place = "/runs") => `${found.url}/#${place}`;
    return found;
  }

  async #startServer(models: readonly string[]) {
    this.output.progress("Starting the local server …");
    const { startLocalServer } = await import("@tinklet/server");
    const starting = startLocalServer({
      ...omitUndefined({ dataDir: this.dataDir, studio: this.studio }),
      ...(this.studio === undefined ? {} : { port: 0 }),
      ...omitUndefined({ device: this.device }),
      engine: { onNotice: this.showsEngineNotices ? engineNotices(this.output) : () => {} },
      ...(models.length === 0 ? {} : { models }),
    });
    const server = await starting.catch(async (cause: Error) => {
      throw await asSaid(cause);
    });
    this.onClose(() => server.close());
    this.output.endProgress();
    return server;
  }

  #keep(service: ServiceClient): ServiceClient {
    this.onClose(() => service.close());
    return service;
  }

  /** Prints why a call is waiting, and messages of the session. */
  #report(event: TinkletEvent): void {
    if (event.type === "future.slow" || event.type === "future.paused") {
      const why = event.reason === undefined ? "" : `: ${event.reason}`;
      const state =
        event.type === "future.paused" ? ` (${event.queueState})` : ` after ${Math.round(event.waitedMs / 1000)} s`;
      this.output.note(`Still waiting for ${event.requestType}${state}${why}`);
    }
    if (event.type === "billing.paused") this.output.note("The service is paused because of a billing problem.");
    if (event.type === "request.retry" && event.attempt >= 2) {
      this.output.progress(`${event.operation}: retrying in ${Math.round(event.delayMs / 1000)} s (${event.reason})`);
    }
    if (event.type === "session.message") this.output.note(event.message);
  }

  onClose(close: () => Promise<void>): void {
    this.#closers.push(close);
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close().catch(() => {});
    this.output.endProgress();
  }
}

/** Converts a plain `Error` without a code, which packages throw for users, into a {@link CliError}; returns other errors unchanged. */
export async function asSaid(cause: Error): Promise<Error> {
  if (cause.constructor !== Error || "code" in cause) return cause;
  const { CliError } = await import("./output/explain.ts");
  return new CliError(cause.message, { cause });
}

/** A listener that prints each notice of the engines once, because several models give the same notice. */
export function engineNotices(output: Output): (message: string) => void {
  const said = new Set<string>();
  return (message) => {
    if (said.has(message)) return;
    said.add(message);
    output.note(`Note: ${message}.`);
  };
}
