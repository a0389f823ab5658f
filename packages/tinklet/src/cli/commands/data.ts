/** `data` and `data prune`: shows and reduces the size of the data folder. The server that uses the folder must be stopped. */
import type { DataFolder, DataKind, PruneChoice, PrunePlan } from "@tinklet/server";
import { referenceOf } from "@tinklet/wire/run-name";
import { parseAge } from "../age.ts";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { confirmed } from "../output/confirm.ts";
import { CliError } from "../output/explain.ts";
import { counted, formatSize, formatTimestamp } from "../output/format.ts";
import { type Input, UsageError } from "../parse.ts";

/** Rows of the table; `--json` has all runs. */
const shownRuns = 20;

const kindNames: Readonly<Record<DataKind, string>> = {
  checkpoints: "checkpoints",
  caches: "adapters imported to sample from",
  states: "states of models in training",
  samplers: "samplers without a name",
  pending_requests: "payloads of pending requests",
  replay: "payloads kept to bring models back",
  results: "results that may still be fetched",
  database: "database, the rest",
  traces: "traces",
  lost: "lost/: unknown to the database",
  other: "other files",
};

export const data: Command = {
  usage: "data [--data-dir FOLDER]",
  about:
    "Shows what uses the data folder on this machine, largest first: by kind, and by run. The server that uses the folder\n" +
    "must be stopped.",
  examples: ["data", "data --data-dir /srv/tinklet --json"],
  async run(_, context) {
    const { output } = context;
    const { folder, dataDir } = await openFolder(context);
    const use = await folder?.use();
    const { kinds = [], runs = [], totalBytes = 0 } = use ?? {};
    if (output.isJson) {
      const json = {
        data_dir: dataDir,
        total_bytes: totalBytes,
        kinds,
        runs: runs.map((run) => ({
          run_id: run.runId,
          name: run.name,
          base_model: run.baseModel,
          last_used_at: new Date(run.lastUsedAt).toISOString(),
          checkpoints: run.checkpoints,
          published: run.published,
          pending_requests: run.pendingRequests,
          bytes: run.bytes,
        })),
      };
      output.result({ json, columns: [], rows: [] });
      return 0;
    }
    output.result({
      json: undefined,
      title: use === undefined ? `${dataDir}: there is nothing yet` : `${dataDir}: ${formatSize(totalBytes)}`,
      columns: ["What", "Size", "Count"],
      rows: kinds.map(({ kind, bytes, count }) => [kindNames[kind], formatSize(bytes), String(count)]),
    });
    if (runs.length === 0) return 0;
    output.line();
    output.result({
      json: undefined,
      columns: ["Name", "Run ID", "Size", "Checkpoints", "Published", "Pending", "Last Used"],
      rows: runs
        .slice(0, shownRuns)
        .map((run) => [
          run.name ?? "",
          run.runId,
          formatSize(run.bytes),
          String(run.checkpoints),
          String(run.published),
          String(run.pendingRequests),
          formatTimestamp(new Date(run.lastUsedAt)),
        ]),
    });
    if (runs.length > shownRuns) output.note(`… and ${counted(runs.length - shownRuns, "run")} more: --json has all.`);
    return 0;
  },
};

export const dataPrune: Command = {
  usage: "data prune [--steps | --older-than AGE | --run RUN | --traces | --lost] [--dry-run] [--yes]",
  about:
    "Permanently deletes data from the data folder on this machine: lists what will be deleted and how much space that frees, and\n" +
    "asks. Without a choice it lists what --steps would delete, and deletes nothing. Published checkpoints and runs with unfinished\n" +
    "requests are kept. The server that uses the folder must be stopped.",
  options: {
    steps: {
      type: "boolean",
      about: "checkpoints of steps (step-20) before the run's final one; best, final and other names stay",
    },
    "older-than": {
      type: "string",
      value: "AGE",
      about: "runs and samplers that were not used for this time: 12h, 7d or 4w",
    },
    run: { type: "string", value: "RUN", about: "this run only, by name or id" },
    traces: { type: "boolean", about: "traces, with their ratings; with --older-than only older ones" },
    lost: { type: "boolean", about: "the files in lost/; with --older-than only older ones" },
    "dry-run": { type: "boolean", about: "list what would be deleted, and delete nothing" },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: ["data prune", "data prune --steps --yes", "data prune --older-than 7d", "data prune --run bike --dry-run"],
  async run(input, context) {
    const { output } = context;
    const choice = chosen(input);
    const { folder, dataDir } = await openFolder(context);
    if (choice.run !== undefined && folder?.hasRun(choice.run) !== true)
      throw new CliError(`${dataDir} has no run ${choice.run}.`, { hint: "npx tinklet data lists the runs." });
    if (folder === undefined) return report(context, undefined, 0, `${dataDir}: there is nothing yet`);
    const plan = await folder.plan(choice);
    for (const run of plan.busy) output.note(`${run} has unfinished requests and stays: ${finishThem}`);
    const items = described(plan);
    if (items.length === 0) return report(context, plan, 0, "Nothing to delete.");
    const frees = `Frees about ${formatSize(plan.bytes)}`;
    if (isDryRun(input)) return listed(context, plan, items, frees, input.flag("dry-run"));
    if (!input.flag("yes") && !(await confirmed("item(s)", items, context, frees)))
      return report(context, undefined, 0, "Deletion cancelled.");
    const before = (await folder.use()).totalBytes;
    const pruned = await folder.prune(choice);
    const freed = Math.max(0, before - (await folder.use()).totalBytes);
    return report(context, pruned, freed, `Deleted ${items.length} item(s), freed ${formatSize(freed)}`);
  },
};

/** Without a choice nothing is deleted. */
const isDryRun = (input: Input): boolean =>
  input.flag("dry-run") ||
  !["steps", "traces", "lost", "older-than", "run"].some((name) => input.flag(name) || input.text(name));

/** Prints what would be deleted. */
function listed(context: Context, plan: PrunePlan, items: readonly string[], frees: string, wasAsked: boolean): number {
  const { output } = context;
  for (const item of items) output.note(`  ${item}`);
  const how = wasAsked ? "" : " To delete it: npx tinklet data prune --steps.";
  return report(
    context,
    plan,
    0,
    `Would delete ${counted(items.length, "item")}. ${frees}. Nothing was deleted.${how}`,
    true,
  );
}

const finishThem = "a server that is started on the folder finishes them.";

function chosen(input: Input): PruneChoice {
  const [olderThan, run] = [input.text("older-than"), input.text("run")];
  const [lost, traces] = [input.flag("lost"), input.flag("traces")];
  const steps = input.flag("steps") || (olderThan === undefined && run === undefined && !lost && !traces);
  if (run !== undefined && (olderThan !== undefined || lost || traces || input.flag("steps")))
    throw new UsageError("--run goes without --steps, --older-than, --traces and --lost");
  if (olderThan !== undefined && input.flag("steps"))
    throw new UsageError("--steps goes without --older-than, which deletes whole runs");
  return {
    run,
    lost,
    traces,
    steps,
    unusedSince: olderThan === undefined ? undefined : Date.now() - parseAge("older-than", olderThan),
  };
}

/** One line for each item that will be deleted. */
function described({ runs, steps, samplers, states, traces, lost }: PrunePlan): string[] {
  return [
    ...runs.map(({ runId, name, checkpoints, published, lastUsedAt }) => {
      const stays = published === 0 ? "" : `; published and kept: ${published}`;
      return `${name === undefined ? "" : `${name}: `}${runId} (${counted(checkpoints, "checkpoint")}, last used ${formatTimestamp(new Date(lastUsedAt))}${stays})`;
    }),
    ...steps.map(
      ({ runId, runName, checkpoint, files }) =>
        `${referenceOf(runName ?? runId, checkpoint)} (${counted(files, "file")})`,
    ),
    ...(states === 0 ? [] : [`${counted(states, "state")} of models whose session has ended`]),
    ...(samplers === 0 ? [] : [`${counted(samplers, "sampler")} without a name`]),
    ...(traces === 0 ? [] : [counted(traces, "trace")]),
    ...lost.map((name) => `lost/${name}`),
  ];
}

/** Prints what was deleted. @param plan - the deletion; absent when nothing was attempted */
function report(
  { output }: Context,
  plan: PrunePlan | undefined,
  freedBytes: number,
  said: string,
  isDry = false,
): number {
  if (!output.isJson) output.line(said);
  output.event({
    dry_run: isDry,
    ...(isDry ? { would_free_bytes: plan?.bytes ?? 0 } : {}),
    deleted_runs: (plan?.runs ?? []).map(({ runId, checkpoints, published }) => ({
      run_id: runId,
      deleted_checkpoints: checkpoints,
      published_kept: published,
    })),
    deleted_steps: (plan?.steps ?? []).map(({ runId, runName, checkpoint, files }) => ({
      reference: referenceOf(runName ?? runId, checkpoint),
      run_id: runId,
      files,
    })),
    deleted_states: plan?.states ?? 0,
    deleted_samplers: plan?.samplers ?? 0,
    deleted_traces: plan?.traces ?? 0,
    deleted_lost: plan?.lost ?? [],
    kept_busy: plan?.busy ?? [],
    freed_bytes: freedBytes,
  });
  return 0;
}

/** Opens and locks the folder until the command ends. @returns `folder: undefined` when it does not exist */
async function openFolder(context: Context): Promise<{ folder: DataFolder | undefined; dataDir: string }> {
  const { dataDir } = context;
  if (dataDir === undefined) throw new UsageError("--data-dir memory keeps nothing: name a folder");
  const { openDataFolder } = await import("@tinklet/server");
  const folder = await openDataFolder(dataDir).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== "locked") throw cause;
    throw new CliError(`${dataDir}: a server is using the data folder.`, {
      cause,
      hint: "Stop it (Ctrl-C where tinklet serve runs) and try again. While it runs, npx tinklet run delete and npx tinklet checkpoint delete make room.",
    });
  });
  if (folder !== undefined) context.onClose(() => folder.close());
  for (const place of folder?.setAside ?? []) context.output.note(`Unknown to the database, moved to ${place}`);
  return { folder, dataDir };
}
