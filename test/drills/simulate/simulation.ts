/** One seed: what is simulated, what goes wrong, and what is checked afterwards. */
import fs from "node:fs";
import { join } from "node:path";
import { replaceEntropy } from "@tinklet/wire/entropy";
import Libsql from "libsql";
import { initialState, type ModelState } from "./arithmetic.ts";
import { vocabularySize } from "./engine.ts";
import { Host, otherModel } from "./host.ts";
import { Network, type NetworkFaults, noFaults, type Profile } from "./network.ts";
import { judge } from "./oracle.ts";
import { Random } from "./random.ts";
import { newOwner, quiet, Scheduler } from "./scheduler.ts";
import { fewestCalls, type TrackedModel, Workload } from "./workload.ts";

export interface SeedResult {
  readonly seed: number;
  readonly problems: readonly string[];
  readonly trace: readonly string[];
  /** Equal for equal traces. */
  readonly digest: number;
  readonly calls: number;
  readonly events: number;
  readonly virtualMs: number;
  readonly faults: Readonly<Record<string, number>>;
}

/** How far a server's clock is set. */
const clockJumpsMs = [-600_000, -60_000, -5_000, 5_000, 600_000] as const;

/** Instants that the server names. */
const crashPoints = [
  "accept.before",
  "accept.after",
  "commit.before",
  "commit.after",
  "execute.before",
  "execute.before",
  "execute.after",
  "files.before-sync",
  "files.before-rename",
  "files.after-rename",
  "files.removing",
  "files.removing",
  "reply",
  "save.written",
  "snapshot.exported",
  "snapshot.before-commit",
] as const;

/** Log events that say that the server itself failed at something. */
const failures: ReadonlySet<string> = new Set([
  "http_request.failed",
  "chat.failed",
  "request.failed",
  "commit.failed",
  "snapshot.failed",
]);

/** The limit of a small disk: that of an empty database and a few models. */
const smallDiskBytes = 250_000;

/** Everything ends within this time after the last fault. */
const healthyLimitMs = 3_600_000;

const oldServer: Profile = {
  name: "0.25",
  flags: {
    sample_use_retrieve_futures: false,
    custom_loss_server_side: false,
    sample_join_sampling_session: false,
    tinklet_extensions: null,
  },
  dynamic: undefined,
  unknown: [
    /^client\/dynamic_config/,
    /^retrieve_futures/,
    /^cancel_future/,
    /^finish_session/,
    /^tinklet\//,
    /custom_loss/,
  ],
};

function profileOf(random: Random, chunkLength: number): Profile {
  const common = { fwdbwd_max_chunk_len: chunkLength };
  if (random.chance(0.15))
    return { ...oldServer, flags: { ...oldServer.flags, ...common, pjwt_auth_enabled: random.chance(0.5) } };
  return {
    name: "current",
    flags: {
      ...common,
      pjwt_auth_enabled: random.chance(0.5),
      parallel_fwdbwd_chunks: random.chance(0.5),
      proto_compress_fwdbwd: random.chance(0.2),
      sample_no_retries: random.chance(0.1),
      sample_enable_stuck_detection: random.chance(0.8),
      sample_max_concurrent_requests: random.pick([2, 10, 2000]),
      sample_use_retrieve_futures: random.chance(0.6),
      custom_loss_server_side: random.chance(0.5),
      sample_join_sampling_session: random.chance(0.5),
      create_model_via_load_weights: random.chance(0.5),
      billing_exception_max_pause_duration_sec: random.pick([0, 60, 3600]),
    },
    dynamic: {
      refresh_interval_sec: random.pick([10, 300]),
      sample_cancel_enabled: random.chance(0.7),
      sample_cancel_max_batch_size: random.pick([1, 64]),
    },
    unknown: [],
  };
}

/** Each seed has some of the faults, at rates of its own: rare ones show more when they come alone. */
function faultsOf(random: Random): NetworkFaults {
  const rate = (most: number) => (random.chance(0.4) ? random.fraction() * most : 0);
  return {
    delayMs: random.pick([1, 20, 400]),
    longDelay: rate(0.02),
    lostRequest: rate(0.1),
    lostAnswer: rate(0.1),
    doubled: rate(0.2),
    cut: rate(0.05),
    halfOpen: rate(0.01),
    refusedStatus: rate(0.08),
    expired: random.chance(0.2) ? random.fraction() * 0.05 : 0,
    oddPoll: random.chance(0.2) ? random.fraction() * 0.1 : 0,
  };
}

export async function simulate(seed: number, folder: string, everyLine?: (line: string) => void): Promise<SeedResult> {
  const random = new Random(seed, "simulation");
  const scheduler = new Scheduler(seed, everyLine);
  const problems: string[] = [];
  const problem = (text: string) => {
    scheduler.note(`PROBLEM ${text}`);
    problems.push(text);
  };
  const rejected = (error: unknown) => problem(`unhandled rejection: ${(error as Error)?.stack ?? String(error)}`);
  process.on("unhandledRejection", rejected);
  const entropy = new Random(seed, "entropy");
  const restoreEntropy = replaceEntropy({
    fraction: () => entropy.fraction(),
    uuid: () => uuidOf(entropy.bytes(16)),
    bytes: (length) => entropy.bytes(length),
  });
  fs.mkdirSync(folder, { recursive: true });

  // Longer than a request is retried, in a few seeds.
  const healthyFromMs = random.chance(0.05) ? 420_000 : random.pick([10_000, 30_000, 90_000]);
  const tenants = ["ada", "bea", "cyd"].slice(0, random.pick([2, 2, 3]));
  const chunkLength = random.between(1, 2);
  const faults = faultsOf(random);
  /** New work is refused when the folder is full of checkpoints, until the server is restarted with a larger limit. */
  const isSmallDisk = random.chance(0.05);
  /** Models and samplers wait for each other's memory. */
  const isTight = random.chance(0.12);
  const largeDisk = random.pick([undefined, 1e9]);
  /** Samples of many sequences: more than the engine's batch takes. */
  const isCrowded = random.chance(0.08);
  /** The engine has a second base model, which some starts leave out until nothing goes wrong any more. */
  const hasOther = random.chance(0.1);
  const threadDeaths = random.chance(0.05) ? random.fraction() * 0.3 : 0;
  /** Results that are larger cannot be stored, as those of a gigabyte in SQLite. */
  const mostBytes = random.chance(0.04) ? random.pick([150, 250, 400]) : Number.POSITIVE_INFINITY;
  let isOtherMissing = false;
  const hasTokenizer = random.chance(0.25);
  const isHealthy = () => scheduler.now >= healthyFromMs;
  const profile = profileOf(random, chunkLength);
  const fate = new Random(seed, "fate");
  let network: Network;
  const host: Host = new Host({
    scheduler,
    seed,
    folder,
    tenants,
    limits: {
      pollMs: random.pick([500, 5_000, 30_000]),
      snapshotWorthMs: random.pick([20, 200, 2000]),
      residentAdapters: isTight ? 1 : random.pick([1, 2, 32]),
      gapMs: random.pick([20_000, 330_000]),
      staleSessionMs: random.pick([15_000, 900_000]),
      // A batch has up to four requests, and its first is sent last: fewer places than those of all models at once would hold it up.
      pendingPerTenant: random.pick([16, 20_000, 20_000]),
      pending: random.pick([20, 100_000, 100_000, 100_000]),
      watchersPerTenant: random.pick([1, 64]),
      chatHeartbeatMs: random.pick([1_000, 10_000]),
    },
    operationMs: random.pick([0.5, 5]),
    engineCallMs: isTight ? 2000 : random.pick([2, 50, 500]),
    engineCapacity: isTight ? 2 : random.pick([3, 5, 1000, 1000]),
    reopeningFails: random.chance(0.3),
    hasTokenizer,
    maxDiskBytes: () => (isSmallDisk && !isHealthy() ? smallDiskBytes : largeDisk),
    hasOther: () => {
      isOtherMissing = hasOther && !isHealthy() && host.crashes > 0 && fate.chance(0.6);
      return hasOther && !isOtherMissing;
    },
    threadDeaths: () => (isHealthy() ? 0 : threadDeaths),
    mostBytes: () => (isHealthy() ? Number.POSITIVE_INFINITY : mostBytes),
    onError: (event, fields) => {
      if (failures.has(event) && !work.mayFailInside)
        problem(`the server failed: ${event} ${JSON.stringify(fields).slice(0, 600)}`);
    },
    onGone: (owner) => network.reset(owner),
  });
  network = new Network({
    scheduler,
    random: new Random(seed, "network"),
    faults: () => (isHealthy() ? noFaults : faults),
    profile,
    server: () => host.server,
    problem,
  });
  const work: Workload = new Workload({
    scheduler,
    network,
    seed,
    tenants,
    chunkLength,
    healthyFromMs,
    problem,
    isOldServer: profile.name !== "current",
    isCrowded,
    hasTokenizer,
    otherModel: hasOther ? otherModel : undefined,
    clockIsSteady: () => !host.hasJumped,
  });

  const world = newOwner("world");
  const start = () => {
    host.start().then(
      () => scheduler.note("the server answers"),
      (error: unknown) => {
        scheduler.note(`the server does not start: ${String(error)}`);
        if (isHealthy()) problem(`the server does not start: ${(error as Error)?.stack ?? String(error)}`);
        else scheduler.after(world, 1000, "start", start);
      },
    );
  };
  start();
  work.start();

  // Crashes come between two events: at every await there is one.
  let crashesLeft = hasOther ? 3 : fate.pick([0, 1, 1, 2, 3]);
  let crashAtEvent = scheduler.count + fate.below(600);
  const crash = () => {
    if (isHealthy() || crashesLeft === 0 || !host.isRunning) return;
    crashesLeft--;
    crashAtEvent = scheduler.count + 20 + fate.below(800);
    host.crash(fate.chance(0.4) ? "killed" : "power");
    if (fate.chance(0.15)) host.jumpClock(fate.pick(clockJumpsMs)); // a machine sets its clock when it boots
    scheduler.after(world, fate.pick([0, 500, 8000]), "start", start);
  };
  let restarts = 0;
  let crashNow = false;
  // One instant of a request's life, and how often it comes before the crash.
  const nextPoint = () => ({ name: fate.pick(crashPoints), times: fate.below(fate.pick([3, 30])) });
  let crashPoint = fate.chance(0.6) ? nextPoint() : undefined;
  host.onPoint = (point) => {
    if (point !== crashPoint?.name || isHealthy() || crashesLeft === 0 || crashPoint.times-- > 0) return;
    scheduler.note(`to crash at ${point}`);
    crashNow = true;
    crashPoint = nextPoint();
  };
  if (fate.chance(0.3)) {
    for (let deaths = fate.between(1, 2); deaths > 0; deaths--) {
      scheduler.after(world, fate.fraction() * healthyFromMs, "engine dies", () => host.killEngine());
    }
  }
  if (fate.chance(0.2)) {
    work.mayFailInside = true;
    const from = fate.fraction() * healthyFromMs * 0.8;
    scheduler.after(world, from, "disk full", () => host.setFull(true));
    scheduler.after(world, Math.min(from + fate.fraction() * 30_000, healthyFromMs), "disk has room", () =>
      host.setFull(false),
    );
  }
  if (fate.chance(0.06)) {
    // The disk fails at a sync: the server stores nothing more, until it is restarted.
    work.mayFailInside = true;
    scheduler.after(world, fate.fraction() * healthyFromMs * 0.8, "syncs fail", () => host.failSyncs());
    scheduler.after(world, healthyFromMs, "the operator restarts it", () => {
      if (!host.isRunning) return;
      host.crash("killed");
      start();
    });
  }
  if (threadDeaths > 0 || mostBytes < Number.POSITIVE_INFINITY) work.mayFailInside = true;
  if (fate.chance(0.15)) {
    // The operator restarts it in order. A crash may come in between, which starts it by itself.
    scheduler.after(world, fate.fraction() * healthyFromMs * 0.8, "the server is to end", () => {
      if (host.server === undefined) return;
      restarts++;
      host.close().then(
        (isEnded) => {
          if (isEnded) start();
        },
        (error: unknown) => problem(`the server's close failed: ${(error as Error)?.stack ?? String(error)}`),
      );
    });
  }
  if (fate.chance(0.2)) {
    scheduler.after(world, fate.fraction() * healthyFromMs, "clock jumps", () =>
      host.jumpClock(fate.pick(clockJumpsMs)),
    );
  }
  if (fate.chance(0.35)) {
    const from = fate.fraction() * healthyFromMs * 0.7;
    scheduler.after(world, from, "outage", () => {
      if (work.livingProcesses.length === 0) return;
      const ms = fate.pick([3_000, 20_000, Number.POSITIVE_INFINITY]);
      network.cutOff(
        fate.pick(work.livingProcesses).owner,
        fate.pick(["requests", "answers"]),
        Math.min(ms, healthyFromMs - scheduler.now),
      );
    });
  }
  scheduler.after(world, healthyFromMs, "healthy", () => {
    host.setFull(false);
    host.setMostBytes(Number.POSITIVE_INFINITY);
    if (!(isSmallDisk || isOtherMissing) || !host.isRunning) return;
    host.crash("killed");
    start();
  });

  /** What has gone wrong so far, beside answers that arrived. */
  const faultsSoFar = () =>
    host.crashes +
    restarts +
    host.engineDeaths +
    [...network.counts].reduce((sum, [name, times]) => sum + (name === "answered" ? 0 : times), 0);
  // A seed whose draws let everything go well gets a crash.
  scheduler.after(world, healthyFromMs * 0.9, "a fault at least", () => {
    if (faultsSoFar() > 0) return;
    crashesLeft = Math.max(crashesLeft, 1);
    crash();
  });

  const over = () => {
    if (work.isOver) return true;
    if (crashNow || scheduler.count >= crashAtEvent) {
      crashNow = false;
      crash();
      crashAtEvent = Math.max(crashAtEvent, scheduler.count + 1);
    }
    return false;
  };
  const ended = await scheduler.run(over, healthyFromMs + healthyLimitMs);
  if (!ended) {
    const open = work.records.filter(
      ({ endedAt, client }) => endedAt === undefined && work.livingProcesses.some(({ owner }) => owner.name === client),
    );
    problem(
      `after ${scheduler.now} ms these calls have not ended: ${open.map(({ client, what, startedAt }) => `${client} ${what} since ${startedAt}`).join("; ") || "none"}`,
    );
    if (host.held !== undefined) {
      const rows = readRows(
        host.held.folder,
        "SELECT id, tenant, kind, model_id, sampler_id, seq, state, starts, result IS NULL AS empty FROM requests",
      );
      for (const row of rows.slice(-60)) scheduler.note(`row ${JSON.stringify(row)}`);
    }
  } else {
    await finish();
  }

  for (const model of work.models) {
    const starts = startsOf(model);
    if (starts === undefined) continue;
    const { problem: wrong } = judge(starts, model.calls, model.samples, vocabularySize);
    if (wrong !== undefined) problem(`${model.client} ${model.modelId}: ${wrong}`);
  }
  if (ended && faultsSoFar() === 0) problem("nothing went wrong");
  if (ended && work.records.length < fewestCalls) problem(`only ${work.records.length} calls were made`);

  /** The states that a model may have begun in: those of its checkpoint, if it was created from one. `undefined` when they are too many. */
  function startsOf({ seed: modelSeed, from }: TrackedModel): readonly ModelState[] | undefined {
    if (from === undefined) return [initialState(modelSeed)];
    const starts = startsOf(from.model);
    const origin = starts && judge(starts, from.model.calls, [], vocabularySize);
    return origin?.isComplete === true ? origin.saved(from.name, from.optimizer) : undefined;
  }

  /** Ends the clients and the server, looks at what they left, and starts the server once more. */
  async function finish(): Promise<void> {
    const settle = async (what: string, wait: Promise<unknown>): Promise<boolean> => {
      let done = false;
      wait.then(
        () => {
          done = true;
        },
        (error: unknown) => {
          done = true;
          problem(`${what} failed: ${(error as Error)?.stack ?? String(error)}`);
        },
      );
      const inTime = await scheduler.run(() => done, scheduler.now + 120_000);
      if (!inTime) problem(`${what} does not end`);
      return inTime;
    };
    const clients = work.livingProcesses;
    for (const { owner, service } of clients) await settle(`${owner.name}'s close`, service.close("success"));
    await quiet();
    const timers = scheduler
      .pending()
      .filter((label) => clients.some(({ owner }) => label.startsWith(`${owner.name} timer`)));
    if (timers.length > 0) problem(`timers are left of closed clients: ${timers.join(", ")}`);
    if (host.server === undefined) {
      problem("the server is not running at the end");
      return;
    }
    await settle("the server's close", host.close());
    await settle("the last start", host.start());
    // A sweep removes what the requests of clients that died have left.
    await scheduler.run(() => false, scheduler.now + 61_000);
    checkFolder();
    const { server } = host;
    await settle("the last close", host.close());
    const left = server === undefined ? [] : scheduler.pending().filter((label) => label.startsWith(server.owner.name));
    if (left.length > 0) problem(`of the closed server are left: ${left.join(", ")}`);
  }

  /** Folders and rows belong together. */
  function checkFolder(): void {
    const held = host.held;
    if (held === undefined) return;
    const listed = (name: string) =>
      fs.existsSync(join(held.folder, name)) ? fs.readdirSync(join(held.folder, name)) : [];
    const known = new Set(readRows(held.folder).map(({ id }) => id));
    const folders = listed("adapters");
    const orphans = folders.filter((id) => !known.has(id));
    const missing = [...known].filter((id) => !folders.includes(id));
    if (orphans.length > 0) problem(`folders without a row: ${orphans.join(", ")}`);
    if (missing.length > 0) problem(`rows without a folder: ${missing.join(", ")}`);
    if (listed("tmp").length > 0) problem(`tmp holds ${listed("tmp").join(", ")}`);
    if (listed("lost").length > 0) problem(`folders were set aside: ${listed("lost").join(", ")}`);
  }

  process.off("unhandledRejection", rejected);
  restoreEntropy();
  const result: SeedResult = {
    seed,
    problems,
    trace: scheduler.lastLines.slice(-200),
    digest: scheduler.digest,
    calls: work.records.length,
    events: scheduler.count,
    virtualMs: Math.round(scheduler.now),
    faults: {
      ...Object.fromEntries(network.counts),
      crashes: host.crashes,
      restarts,
      "engine deaths": host.engineDeaths,
    },
  };
  fs.rmSync(folder, { recursive: true, force: true });
  return result;
}

/** The rows of a database that a server holds open: a copy of its files is read. */
function readRows(folder: string, query = "SELECT id FROM files"): { id: string }[] {
  const copy = `${folder}-rows`;
  fs.mkdirSync(copy, { recursive: true });
  for (const name of ["tinklet.db", "tinklet.db-wal"]) {
    if (fs.existsSync(join(folder, name))) fs.copyFileSync(join(folder, name), join(copy, name));
  }
  const database = new Libsql(join(copy, "tinklet.db"));
  try {
    return database.prepare(query).all() as { id: string }[];
  } finally {
    database.close();
    fs.rmSync(copy, { recursive: true, force: true });
  }
}

function uuidOf(bytes: Uint8Array): string {
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
