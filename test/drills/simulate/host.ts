/** The simulated server's machine: starts the real server on a folder, crashes it, and starts it again on what survived. */
import { createHash } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { createServer, type Limits, type TinkletServer } from "@tinklet/server";
import { tinyTokenizer } from "../../../packages/models/src/testing/tiny-tokenizer.ts";
import { bookSurvivors, mount, newVolume, survivors, type Volume } from "./disk.ts";
import { closeAll } from "./disk-fs.ts";
import { type SimulatedEngine, simulatedEngine } from "./engine.ts";
import { Random } from "./random.ts";
import { newOwner, type Owner, type Scheduler } from "./scheduler.ts";
import { hostThreads } from "./side-thread.ts";

export const baseModel = "simulated/base";
export const baseUrl = "http://tinklet.test";

export interface HostOptions {
  readonly scheduler: Scheduler;
  readonly seed: number;
  /** Folder of this simulation alone. */
  readonly folder: string;
  readonly tenants: readonly string[];
  readonly limits: Partial<Limits>;
  readonly operationMs: number;
  readonly engineCallMs: number;
  /** Adapters that fit into the engine's memory. */
  readonly engineCapacity: number;
  /** Whether an engine that died may fail to open once. */
  readonly reopeningFails: boolean;
  /** Whether the model has one, which chats need. */
  readonly hasTokenizer: boolean;
  readonly maxDiskBytes: () => number | undefined;
  /** Told of everything that the server logs as an error. */
  readonly onError: (event: string, fields: object) => void;
  /** Told when a process of the server is gone. */
  readonly onGone: (owner: Owner) => void;
}

export const keyOf = (tenant: string): string => `tml-${tenant}-key`;

interface Incarnation {
  readonly owner: Owner;
  readonly volume: Volume;
  engine: SimulatedEngine | undefined;
  server: TinkletServer | undefined;
}

export class Host {
  readonly #options: HostOptions;
  readonly #random: Random;
  #incarnation: Incarnation | undefined;
  #starts = 0;
  #folder: string | undefined;
  #skewMs = 0;
  /** Whether the server's clock was ever set. */
  hasJumped = false;
  crashes = 0;
  engineDeaths = 0;
  /** Called at the named instants of a request's life. */
  onPoint: (point: string) => void = () => {};

  constructor(options: HostOptions) {
    this.#options = options;
    this.#random = new Random(options.seed, "host");
  }

  /** The server that answers now. */
  get server(): { readonly owner: Owner; readonly fetch: TinkletServer["fetch"] } | undefined {
    const { owner, server } = this.#incarnation ?? {};
    return server === undefined || owner === undefined ? undefined : { owner, fetch: server.fetch };
  }

  /** Whether there is a process, be it one that is still starting. */
  get isRunning(): boolean {
    return this.#incarnation !== undefined;
  }

  setFull(full: boolean): void {
    if (this.#incarnation !== undefined) this.#incarnation.volume.full = full;
  }

  /** From now on, every sync of this server fails. */
  failSyncs(): void {
    if (this.#incarnation !== undefined) this.#incarnation.volume.syncsFail = true;
  }

  jumpClock(ms: number): void {
    this.hasJumped = true;
    this.#skewMs += ms;
    if (this.#incarnation !== undefined) this.#incarnation.owner.skewMs = this.#skewMs;
  }

  killEngine(): void {
    this.engineDeaths++;
    this.#incarnation?.engine?.die();
  }

  /** Starts the server. Resolves when it answers; never, when it dies before. @throws what the server throws */
  async start(): Promise<void> {
    const {
      scheduler,
      tenants,
      limits,
      operationMs,
      engineCallMs,
      engineCapacity,
      reopeningFails,
      hasTokenizer,
      maxDiskBytes,
      onError,
    } = this.#options;
    const number = ++this.#starts;
    const owner = newOwner(`server${number}`);
    owner.skewMs = this.#skewMs;
    const folder = join(this.#options.folder, `disk${String(number).padStart(4, "0")}`);
    if (this.#folder === undefined) fs.mkdirSync(folder, { recursive: true });
    else fs.renameSync(this.#folder, folder);
    this.#folder = folder;
    const random = new Random(this.#options.seed, `disk${number}`);
    const volume = newVolume({ folder, owner, scheduler, random, operationMs });
    bookSurvivors(volume);
    mount(volume);
    hostThreads({ scheduler, owner });
    const incarnation: Incarnation = { owner, volume, engine: undefined, server: undefined };
    this.#incarnation = incarnation;
    const engineRandom = new Random(this.#options.seed, `engine${number}`);
    const clock = scheduler.clock(owner);
    let opened = 0;
    const open = async () => {
      if (++opened % 2 === 0 && reopeningFails) throw new Error("the engine's thread does not start");
      incarnation.engine = simulatedEngine({
        scheduler,
        owner,
        random: engineRandom,
        callMs: engineCallMs,
        capacity: engineCapacity,
      });
      return incarnation.engine;
    };
    try {
      const server = await createServer({
        models: [{ name: baseModel, open, ...(hasTokenizer ? { tokenizerFiles: async () => tinyTokenizer } : {}) }],
        dataDir: folder,
        apiKeys: tenants.map((name) => ({ name, sha256: createHash("sha256").update(keyOf(name)).digest("hex") })),
        allowedHosts: ["tinklet.test"],
        limits,
        maxDiskBytes: maxDiskBytes(),
        clock,
        nextTurn: (run) => void scheduler.after(owner, random.fraction(), "turn", run),
        onPoint: (point) => this.onPoint(point),
        log: {
          info: () => {},
          warn: (event, fields) => scheduler.note(`${owner.name} log ${event} ${JSON.stringify(fields ?? {})}`),
          error: (event, fields) => {
            if (!owner.alive) return; // what a dead process still computes has no effect
            scheduler.note(`${owner.name} log ${event} ${JSON.stringify(fields ?? {}).slice(0, 400)}`);
            onError(event, fields ?? {});
          },
        },
      });
      incarnation.server = server;
    } catch (error) {
      this.#end(incarnation);
      throw error;
    }
  }

  /** Ends the server without warning. What it had under way never happens. */
  crash(how: "killed" | "power"): void {
    const incarnation = this.#incarnation;
    if (incarnation === undefined) return;
    this.crashes++;
    this.#options.scheduler.note(`${incarnation.owner.name} crashes (${how})`);
    const { folder } = incarnation.volume;
    const to = `${folder}-survivors`;
    survivors(incarnation.volume, how, to);
    this.#end(incarnation);
    fs.rmSync(folder, { recursive: true, force: true });
    this.#folder = to;
  }

  /** Shuts the server down in order. */
  async close(): Promise<void> {
    const incarnation = this.#incarnation;
    await incarnation?.server?.close();
    if (incarnation !== undefined) this.#end(incarnation);
  }

  #end(incarnation: Incarnation): void {
    const { owner, volume } = incarnation;
    incarnation.server = undefined;
    this.#incarnation = undefined;
    owner.alive = false;
    closeAll(volume);
    for (const database of volume.databases) database.close();
    volume.databases.clear();
    mount(undefined);
    this.#options.onGone(owner);
  }

  /** What the running server holds of its machine. */
  get held(): { readonly descriptors: number; readonly databases: number; readonly folder: string } | undefined {
    const volume = this.#incarnation?.volume;
    return volume && { descriptors: volume.open.size, databases: volume.databases.size, folder: volume.folder };
  }

  get folder(): string | undefined {
    return this.#folder;
  }

  get random(): Random {
    return this.#random;
  }
}
