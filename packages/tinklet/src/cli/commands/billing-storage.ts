/**
 * `billing storage`: as `billing checkpoint-storage`; with `--explain`, which runs the stored checkpoints belong to, what each costs, and
 * the commands that would free it. Deletes nothing.
 */
import type { RestClient } from "@tinklet/sdk";
import type { Checkpoint } from "@tinklet/wire";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { counted, formatDollars, formatSize } from "../output/format.ts";
import { UsageError } from "../parse.ts";
import { billingCheckpointStorage } from "./billing.ts";

/** More checkpoints than this are not read; the rest is named. */
const mostCheckpoints = 100_000;
/** Runs in the table, and commands below it; JSON has all of them. */
const mostShown = 20;

export const billingStorage: Command = {
  ...billingCheckpointStorage,
  usage: "billing storage [--explain] [--project-id ID] [--csv FILE]",
  about:
    "Shows the number and the size of the stored checkpoints and their cost in a month (720 hours), by project and owner.\n" +
    "With --explain: what each run keeps and costs, and the commands that would free it. Nothing is deleted.",
  options: {
    ...billingCheckpointStorage.options,
    explain: { type: "boolean", about: "each run's checkpoints, their cost, and the commands that would free them" },
  },
  examples: ["billing storage --explain"],
  async run(input, context) {
    if (!input.flag("explain")) return billingCheckpointStorage.run(input, context);
    for (const name of ["project-id", "csv"])
      if (input.text(name) !== undefined) throw new UsageError(`--${name} cannot be combined with --explain`);
    return explain(context);
  },
};

/** What one run keeps. */
export interface Kept {
  readonly run: string;
  readonly name: string | undefined;
  readonly checkpoints: readonly Checkpoint[];
  readonly bytes: number;
}

/** A command, and what it frees. */
export interface Freeing {
  readonly command: string;
  readonly what: string;
  readonly bytes: number;
}

async function explain(context: Context): Promise<number> {
  const { output, signal } = context;
  const rest = (await context.service()).createRestClient();
  const [rate, { checkpoints, isCut }] = await Promise.all([monthlyRate(rest, signal), allCheckpoints(rest, signal)]);
  const { runs, freeing } = storageOf(checkpoints);
  const cost = (bytes: number) => (rate === undefined ? undefined : (bytes / 1e9) * rate);
  const shownCost = (bytes: number) => (rate === undefined ? "" : formatDollars(cost(bytes) as number));
  const bytes = runs.reduce((sum, kept) => sum + kept.bytes, 0);
  const title =
    runs.length === 0
      ? "No stored checkpoints"
      : `${checkpoints.length} checkpoint(s) of ${runs.length} run(s), ${formatSize(bytes)}${rate === undefined ? " (this server names no price)" : `, ${shownCost(bytes)} a month`}`;
  output.result({
    title,
    columns: ["run", "checkpoints", "without expiry", "size", "per month", "newest"],
    rows: runs
      .slice(0, mostShown)
      .map(({ run, name, checkpoints: own, bytes: size }) => [
        name ?? run,
        String(own.length),
        String(own.filter(({ expiresAt }) => expiresAt === undefined).length),
        formatSize(size),
        shownCost(size),
        newestOf(own).toISOString().slice(0, 10),
      ]),
    json: {
      effective_rate_usd_per_gigabyte_month: rate ?? null,
      runs: runs.map(({ run, name, checkpoints: own, bytes: size }) => ({
        ...{ run, name: name ?? null, checkpoint_count: own.length, size_bytes: size },
        estimated_monthly_cost_usd: cost(size) ?? null,
      })),
      freeing: freeing.map(({ command, what, bytes: size }) => ({
        ...{ command, what, size_bytes: size, estimated_monthly_cost_usd: cost(size) ?? null },
      })),
      complete: !isCut,
    },
  });
  if (output.isJson) return 0;
  if (runs.length > mostShown) output.line(`and ${runs.length - mostShown} more runs (-f json lists all)`);
  if (isCut) output.note(`Only the first ${mostCheckpoints} checkpoints were read.`);
  for (const { command, what, bytes: size } of freeing.slice(0, mostShown)) {
    const saves = rate === undefined ? formatSize(size) : `${formatSize(size)}, ${shownCost(size)} a month`;
    output.line(`\n${what}: ${saves}\n  ${command}`);
  }
  if (freeing.length > mostShown) output.line(`\nand ${freeing.length - mostShown} more commands (-f json lists all)`);
  return 0;
}

async function monthlyRate(rest: RestClient, signal: AbortSignal): Promise<number | undefined> {
  try {
    return (await rest.getCurrentCheckpointStorageUsage({ signal })).effectiveRateUsdPerGigabyteMonth;
  } catch {
    signal.throwIfAborted();
    return undefined; // servers before 0.32 have no prices; the sizes are useful without
  }
}

async function allCheckpoints(rest: RestClient, signal: AbortSignal) {
  const checkpoints: Checkpoint[] = [];
  for await (const checkpoint of rest.listUserCheckpoints({ signal })) {
    if (checkpoints.length === mostCheckpoints) return { checkpoints, isCut: true };
    checkpoints.push(checkpoint);
  }
  return { checkpoints, isCut: false };
}

const runOf = ({ tinkerPath }: Checkpoint) => tinkerPath.replace(/^tinker:\/\//, "").split("/")[0] as string;
const sizeOf = (all: readonly Checkpoint[]) => all.reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0);
const newestOf = (all: readonly Checkpoint[]) => new Date(Math.max(...all.map(({ time }) => time.getTime())));

/** What the runs keep, and what of it could be freed, the largest first. */
export function storageOf(checkpoints: readonly Checkpoint[]): {
  readonly runs: readonly Kept[];
  readonly freeing: readonly Freeing[];
} {
  const runs = keptByRun(checkpoints);
  return { runs, freeing: runs.flatMap((kept) => freeingOf(kept)).sort((a, b) => b.bytes - a.bytes) };
}

/** By run, the largest first. */
function keptByRun(checkpoints: readonly Checkpoint[]): Kept[] {
  const byRun = new Map<string, Checkpoint[]>();
  for (const checkpoint of checkpoints) {
    const own = byRun.get(runOf(checkpoint)) ?? [];
    byRun.set(runOf(checkpoint), own);
    own.push(checkpoint);
  }
  return [...byRun]
    .map(([run, own]) => ({ run, name: own[0]?.runName, checkpoints: own, bytes: sizeOf(own) }))
    .sort((a, b) => b.bytes - a.bytes || a.run.localeCompare(b.run));
}

/** Names of checkpoints that are kept on purpose: they may be better than newer ones. */
const isKept = ({ public: isPublished, tinkerPath }: Checkpoint): boolean =>
  isPublished || /^(final|best(-\d+)?)$/.test(tinkerPath.split("/").at(-1) as string);

/**
 * What of a run is superseded: older training states and older weights for sampling. Published checkpoints, the best weights and those of the
 * end of a run are left out.
 */
function freeingOf({ run, name, checkpoints }: Kept): Freeing[] {
  return (
    [
      ["training", "weights", "training checkpoint"],
      ["sampler", "sampler_weights", "sampler checkpoint"],
    ] as const
  ).flatMap(([type, option, words]) => {
    const own = checkpoints.filter(({ checkpointType }) => checkpointType === type);
    if (own.length < 2) return [];
    const newest = newestOf(own);
    const older = own.filter(({ time }) => time < newest);
    if (older.length === 0) return [];
    const isMixed = older.some(isKept);
    const deleted = older.filter((checkpoint) => !isKept(checkpoint));
    if (deleted.length === 0) return [];
    const paths = deleted.map(({ tinkerPath }) => shellWord(tinkerPath)).join(" ");
    const command = isMixed
      ? `npx tinklet checkpoint delete ${paths}`
      : `npx tinklet checkpoint delete --run-id ${shellWord(run)} --type ${option} --before ${newest.toISOString()}`;
    const what = `${counted(deleted.length, words)} of ${name ?? run} before the newest`;
    return [{ command, what, bytes: sizeOf(deleted) }];
  });
}

/** A word of a POSIX shell's command line: ids come from the server, and a person pastes the command. */
const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) && !text.startsWith("-") ? text : `'${text.replaceAll("'", "'\\''")}'`;
