/** The simulated server's machine: starts the real server on a folder, crashes it, and starts it again on what survived. */
import { createHash } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";
import { createServer, type Limits, type TinkletServer } from "@tinklet/server";
import { tinyTokenizer } from "../../../packages/models/src/testing/tiny-tokenizer.ts";
import { openDatabase } from "../../../packages/server/src/store/database.ts";
import { bookSurvivors, mount, newVolume, survivors, type Volume } from "./disk.ts";
import { closeAll } from "./disk-fs.ts";
import { type SimulatedEngine, simulatedEngine } from "./engine.ts";
import { Random } from "./random.ts";
import { newOwner, type Owner, Scheduler } from "./scheduler.ts";
import { hostThreads } from "./side-thread.ts";

export const baseModel = "simulated/base";
/** A second base model, which some servers have. */
export const otherModel = "simulated/other";
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
  /** Whether a server that starts now has the second base model. */
  readonly hasOther: () => boolean;
  /** Share of the tasks that end their side thread. */
  readonly threadDeaths: () => number;
  /** Bytes of the largest result that the database stores now. */
  readonly mostBytes: () => number;
  /** Told of everything that the server logs as an error. */
  readonly onError: (event: string, fields: object) => void;
  /** Told when a process of the server is gone. */
  readonly onGone: (owner: Owner) => void;
}

export const keyOf = (tenant: string): string => `tml-${tenant}-key`;

let made: Buffer | undefined;
/** An empty database, made once for all seeds: making one is a fiftieth of a seed, in one event. */
function newDatabase(folder: string): Buffer {
  if (made !== undefined) return made;
  fs.mkdirSync(folder);
  const file = join(folder, "tinklet.db");
  const owner = newOwner("template");
  const random = new Random(0, "template");
  const volume = newVolume({ folder, owner, scheduler: new Scheduler(0), random, operationMs: 1 });
  mount(volume);
  openDatabase({ file });
  for (const database of volume.databases) {
    database.pragma("journal_mode = DELETE");
    database.close();
  }
  closeAll(volume);
  mount(undefined);
  made = fs.readFileSync(file);
  fs.rmSync(folder, { recursive: true, force: true });
  return made;
}

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

  setMostBytes(bytes: number): void {
    if (this.#incarnation !== undefined) this.#incarnation.volume.mostBytes = bytes;
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
      hasOther,
      threadDeaths,
      mostBytes,
      onError,
    } = this.#options;
    const number = ++this.#starts;
    const owner = newOwner(`server${number}`);
    owner.skewMs = this.#skewMs;
    const folder = join(this.#options.folder, `disk${String(number).padStart(4, "0")}`);
    if (this.#folder === undefined) {
      fs.mkdirSync(folder, { recursive: true });
      fs.writeFileSync(join(folder, "tinklet.db"), newDatabase(`${this.#options.folder}-empty`));
    } else fs.renameSync(this.#folder, folder);
    this.#folder = folder;
    const random = new Random(this.#options.seed, `disk${number}`);
    const volume = newVolume({ folder, owner, scheduler, random, operationMs });
    volume.mostBytes = mostBytes();
    bookSurvivors(volume);
    mount(volume);
    hostThreads({
      scheduler,
      owner,
      random: new Random(this.#options.seed, `threads${number}`),
      deathRate: threadDeaths,
    });
    const incarnation: Incarnation = { owner, volume, engine: undefined, server: undefined };
    this.#incarnation = incarnation;
    const engineRandom = new Random(this.#options.seed, `engine${number}`);
    const clock = scheduler.clock(owner);
    let opened = 0;
    const newEngine = () =>
      simulatedEngine({ scheduler, owner, random: engineRandom, callMs: engineCallMs, capacity: engineCapacity });
    const open = async () => {
      if (++opened % 2 === 0 && reopeningFails) throw new Error("the engine's thread does not start");
      incarnation.engine = newEngine();
      return incarnation.engine;
    };
    try {
      const server = await createServer({
        models: [
          { name: baseModel, open, ...(hasTokenizer ? { tokenizerFiles: async () => tinyTokenizer } : {}) },
          ...(hasOther() ? [{ name: otherModel, open: async () => newEngine() }] : []),
        ],
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

  /** Shuts the server down in order. @returns whether it was this that ended it, and no crash in the meantime */
  async close(): Promise<boolean> {
    const incarnation = this.#incarnation;
    await incarnation?.server?.close();
    if (incarnation === undefined || this.#incarnation !== incarnation) return false;
    this.#end(incarnation);
    return true;
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
