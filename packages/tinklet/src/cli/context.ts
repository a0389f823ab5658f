/** The context of a running command: the service client, Ctrl-C, and the resources to close at the end. */
import { setMaxListeners } from "node:events";
import type { ServiceClient, TinkletEvent } from "@tinklet/sdk";
import { environment, type FoundServer, localDataDir, startLocal } from "@tinklet/sdk/environment";
import type { DeviceChoice, LocalServer, LocalServerOptions, Precision } from "@tinklet/server";
import type { Studio } from "@tinklet/wire";
import type { Output } from "./output/output.ts";
import type { Input } from "./parse.ts";

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
  /** Whether the command has ended with an error. */
  hasFailed = false;
  /** Whether a local command uses a running `tinklet serve`. */
  isAttached = false;
  /** Fetches URLs in the server's answers; an in-process server has no socket. */
  fetch: (url: string, init?: RequestInit) => Promise<Response> = (url, init) => fetch(url, init);

  constructor(input: Input, output: Output) {
    this.#input = input;
    this.output = output;
    setMaxListeners(0, this.signal); // every pending call adds a listener
    const onInterrupt = (sent: NodeJS.Signals) => {
      if (this.#interrupt.signal.aborted) {
        if (sent === "SIGTERM") return; // sent by programs, perhaps by two of them: it ends in order
        process.exit(130); // second Ctrl-C: exit now
      }
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

  /** Arithmetic of a local server on a CUDA device; `undefined` for its default, float32. */
  get precision(): Precision | undefined {
    return this.#input.text("precision") as Precision | undefined;
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
      const options = {
        ...common,
        models,
        device: this.device,
        precision: this.precision,
        dataDir: this.dataDir ?? "memory",
      };
      const { client, found } = await startLocal(
        options,
        this.#serverLoader(({ fetch, studioUrl }) => {
          this.fetch = fetch;
          this.studioUrl = studioUrl;
        }),
      );
      if (found !== undefined) this.#useRunning(found);
      return this.#keep(new ServiceClient(client));
    }
    const apiKey = this.#input.text("api-key");
    const baseUrl = this.#input.text("base-url");
    const service = new ServiceClient({ ...common, apiKey, baseUrl });
    this.output.hideWith(service.redactor);
    return this.#keep(service);
  }

  /** Another client, of a server in this process that stores nothing. */
  async startInMemory(models: readonly string[]): Promise<ServiceClient> {
    const { ServiceClient } = await import("@tinklet/sdk");
    const { client } = await startLocal({ dataDir: "memory", models, logLevel: "off" }, this.#serverLoader());
    return this.#keep(new ServiceClient(client));
  }

  /** Uses the `tinklet serve` of the data folder. */
  #useRunning({ apiKey, url, hasStudio }: FoundServer): void {
    this.output.hide(apiKey);
    this.isAttached = true;
    this.output.note(`Using tinklet serve at ${url}, which uses ${this.dataDir}.`);
    // The page asks for a sign-in unless this browser has opened the link that `tinklet serve` printed.
    if (hasStudio) this.studioUrl = (place = "/runs") => `${url}/#${place}`;
  }

  /** The server's package, with the command line's options for a server in this process: the studio and its port, and notices. */
  readonly #serverLoader =
    (onStart: (server: LocalServer) => void = () => {}) =>
    async () => ({
      startLocalServer: async (options: LocalServerOptions) => {
        this.output.progress("Starting the local server …");
        const { startLocalServer } = await import("@tinklet/server");
        const server = await startLocalServer({
          ...options,
          ...(this.studio === undefined ? {} : { studio: this.studio, port: 0 }),
          engine: { onNotice: this.showsEngineNotices ? engineNotices(this.output) : () => {} },
        }).catch(async (cause: Error) => {
          throw await asSaid(cause);
        });
        this.onClose(() => server.close());
        this.output.endProgress();
        onStart(server);
        return server;
      },
    });

  /** The session is finished, so that the server deletes what only the session could use. */
  #keep(service: ServiceClient): ServiceClient {
    this.onClose(() => service.close(this.signal.aborted ? "interrupted" : this.hasFailed ? "errored" : "success"));
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
