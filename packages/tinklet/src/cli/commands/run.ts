/** `run list` and `run info`, with the official tool's options, columns and JSON. */
import type { TrainingRun } from "@tinklet/wire";
import type { Command } from "../command.ts";
import { counted, formatTimestamp } from "../output/format.ts";
import { trainingRunJson } from "../output/official-json.ts";
import { fetchUpTo, moreNotShown } from "../paging.ts";
import { UsageError } from "../parse.ts";
import { nameOf, resolveRuns, runReferenceHelp } from "../references.ts";

const columns: Readonly<Record<string, readonly [header: string, cell: (run: TrainingRun) => string]>> = {
  name: ["Name", (run) => nameOf(run) ?? run.trainingRunId],
  id: ["Run ID", (run) => run.trainingRunId],
  model: ["Base Model", (run) => run.baseModel],
  owner: ["Owner", (run) => run.modelOwner],
  lora: ["LoRA", (run) => (run.isLora && run.loraRank ? `Rank ${run.loraRank}` : run.isLora ? "Yes" : "No")],
  updated: ["Last Update", (run) => formatTimestamp(run.lastRequestTime)],
  status: ["Status", (run) => (run.corrupted ? "Failed" : "OK")],
  checkpoint: ["Last Checkpoint", (run) => run.lastCheckpoint?.checkpointId ?? "None"],
  checkpoint_time: ["Checkpoint Time", (run) => formatTimestamp(run.lastCheckpoint?.time)],
};
const defaultColumns = "name,model,lora,updated,status";

export const runList: Command = {
  usage: "run list [--limit N] [--columns a,b]",
  about: "Lists training runs, newest first. Runs that resume each other are one row, unless the column id is shown.",
  options: {
    limit: { type: "string", value: "N", about: "maximum number; 0 for all (default 20)" },
    columns: { type: "string", short: "c", about: `of ${Object.keys(columns).join(",")} (default ${defaultColumns})` },
  },
  async run(input, context) {
    const limit = input.integer("limit", 0) ?? 20;
    const chosen = (input.text("columns") ?? defaultColumns).split(",").map((name) => name.trim());
    const unknown = chosen.filter((name) => !Object.hasOwn(columns, name));
    if (unknown.length > 0) {
      throw new UsageError(`Unknown column(s): ${unknown.join(", ")}. Available: ${Object.keys(columns).join(", ")}`);
    }
    const { output, signal } = context;
    const rest = (await context.service()).createRestClient();
    const fetch = async (page: { limit: number; offset: number }) => {
      const { trainingRuns, cursor } = await rest.listTrainingRuns({ ...page, signal });
      return { items: trainingRuns, total: cursor?.totalCount };
    };
    const { items: runs, total } = await fetchUpTo(limit, 100, fetch, { output, what: "training runs" });
    const listed = chosen.includes("id") ? runs : newestOfEach(runs);
    const shown = chosen.map((name) => columns[name] as (typeof columns)[string]);
    output.result({
      title:
        runs.length === 0
          ? "No training runs found"
          : counted(listed.length, "training run") + moreNotShown(total, runs.length),
      columns: shown.map(([header]) => header),
      rows: listed.map((run) => shown.map(([, cell]) => cell(run))),
      json: { runs: runs.map(trainingRunJson) },
    });
  },
};

/** Without the runs that a later one of the same name resumes. Only a server that assigns names makes them unique. */
function newestOfEach(runs: readonly TrainingRun[]): TrainingRun[] {
  const seen = new Set<string>();
  return runs.filter(({ name }) => name === undefined || (!seen.has(name) && seen.add(name)));
}

export const runInfo: Command = {
  usage: "run info RUN",
  about: `Shows one training run: ${runReferenceHelp}.`,
  arguments: ["RUN"],
  async run({ positionals: [reference = ""] }, context) {
    const rest = (await context.service()).createRestClient();
    const runId = (await resolveRuns(reference, async () => rest)).at(-1) as string;
    const run = await rest.getTrainingRun(runId, { signal: context.signal });
    const checkpoint = (name: string, of = run.lastCheckpoint) =>
      of === undefined
        ? []
        : [
            [name, of.checkpointId],
            ["  - Time", formatTimestamp(of.time)],
            ["  - Path", of.tinkerPath],
          ];
    const metadata = Object.entries(run.userMetadata ?? {});
    context.output.result({
      title: `Training Run: ${nameOf(run) ?? run.trainingRunId}`,
      columns: ["Property", "Value"],
      rows: [
        ...(nameOf(run) === undefined ? [] : [["Name", nameOf(run) as string]]),
        ["Run ID", run.trainingRunId],
        ["Base Model", run.baseModel],
        ["Owner", run.modelOwner],
        ["LoRA", loraText(run)],
        ["Last Update", formatTimestamp(run.lastRequestTime)],
        ["Status", run.corrupted ? "Failed" : "OK"],
        ...checkpoint("Last Training Checkpoint"),
        ...(run.lastSamplerCheckpoint === undefined
          ? []
          : checkpoint("Last Sampler Checkpoint", run.lastSamplerCheckpoint)),
        ...(metadata.length === 0 ? [] : [["Metadata", ""], ...metadata.map(([key, value]) => [`  - ${key}`, value])]),
      ],
      json: trainingRunJson(run),
    });
  },
};

/** `Yes (Rank 32)`, `Yes` or `No`. */
export function loraText({ isLora, loraRank }: Pick<TrainingRun, "isLora" | "loraRank">): string {
  return isLora ? (loraRank ? `Yes (Rank ${loraRank})` : "Yes") : "No";
}
