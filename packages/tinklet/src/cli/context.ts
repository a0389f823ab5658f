/** What surrounds a command: the service it talks to, Ctrl-C, and what must be closed in the end. */
import { setMaxListeners } from "node:events";
import type { ServiceClient, TinkletEvent } from "@tinklet/sdk";
import { environment, localDataDir } from "@tinklet/sdk/environment";
import type { Studio } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { localKey, type Output } from "./output/output.ts";
import type { Input } from "./parse.ts";

/** The bundled model's name on the local server. */
export const bundledModel = "tinklet/base";

export class Context {
  readonly output: Output;
  readonly #input: Input;
  readonly #interrupt = new AbortController();
  readonly #closers: (() => Promise<void>)[] = [];
  #service: Promise<ServiceClient> | undefined;
  /** Set before the service is first asked for: a local server then leaves nothing behind. */
  keepsNothing = false;
  /** Cleared by a command that reports the engine's runtime itself: its notice would say the same again. */
  showsEngineNotices = true;
  /** The page of a local server; set before the service is first asked for. It then listens on a port, for the page alone. */
  studio: Studio | undefined;
  /** A link to that page. */
  studioUrl: (place?: string) => string | undefined = () => undefined;
  /** Headers of every request; set before the service is first asked for. */
  headers: Readonly<Record<string, string>> = {};
  /** Reaches what the server links to; a local server has no socket. */
  fetch: (url: string, init?: RequestInit) => Promise<Response> = (url, init) => fetch(url, init);

  constructor(input: Input, output: Output) {
    this.#input = input;
    this.output = output;
    setMaxListeners(0, this.signal); // every call of a command listens to it
    const onInterrupt = () => {
      if (this.#interrupt.signal.aborted) process.exit(130); // the second time it is meant
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

  /** Whether the server runs inside this process. */
  get isLocal(): boolean {
    return this.#input.flag("local");
  }

  /** Whether a key or a server was given, here or in the environment. */
  get hasServer(): boolean {
    const given = [this.#input.text("api-key"), this.#input.text("base-url")];
    const set = ["TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD"].map(environment);
    return this.isLocal || [...given, ...set].some((one) => one !== undefined);
  }

  /** Where a local server keeps its things; nowhere for one that keeps nothing. */
  get dataDir(): string | undefined {
    return this.keepsNothing ? undefined : localDataDir(this.#input.text("data-dir"));
  }

  /** The client, connected once. @param models - what a local server serves besides its own model */
  service(models: readonly string[] = []): Promise<ServiceClient> {
    this.#service ??= this.#connect(models);
    return this.#service;
  }

  /** The client of a server inside this process, whatever was asked for. */
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

  async #startServer(models: readonly string[]) {
    this.output.progress("Starting the local server …");
    const { startLocalServer } = await import("@tinklet/server");
    const starting = startLocalServer({
      ...omitUndefined({ dataDir: this.dataDir, studio: this.studio }),
      ...(this.studio === undefined ? {} : { port: 0 }),
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

  /** Whoever waits must know why. */
  #report(event: TinkletEvent): void {
    if (event.type === "future.slow" || event.type === "future.paused") {
      const why = event.reason === undefined ? "" : `: ${event.reason}`;
      const state =
        event.type === "future.paused" ? ` (${event.queueState})` : ` after ${Math.round(event.waitedMs / 1000)} s`;
      this.output.note(`Still waiting for ${event.requestType}${state}${why}`);
    }
    if (event.type === "billing.paused") this.output.note("The service waits for billing to be put in order.");
    if (event.type === "request.retry" && event.attempt >= 2) {
      this.output.progress(
        `${event.operation}: trying again in ${Math.round(event.delayMs / 1000)} s (${event.reason})`,
      );
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

/** A failure that a package tells by a plain error: its words are for people. Others have classes of their own. */
export async function asSaid(cause: Error): Promise<Error> {
  if (cause.constructor !== Error || "code" in cause) return cause;
  const { CliError } = await import("./output/explain.ts");
  return new CliError(cause.message, { cause });
}

/** Passes on what an engine has to say, once: with several models each would say it, for example that it is slow here. */
export function engineNotices(output: Output): (message: string) => void {
  const said = new Set<string>();
  return (message) => {
    if (said.has(message)) return;
    said.add(message);
    output.note(`Note: ${message}.`);
  };
}
