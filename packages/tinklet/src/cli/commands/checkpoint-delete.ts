/** `checkpoint delete`: by path, or the checkpoints of a run by type and age. Asks for confirmation first. */

import type { RestClient } from "@tinklet/sdk";
import type { Checkpoint } from "@tinklet/wire";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { confirmed } from "../output/confirm.ts";
import { formatSize, formatTimestamp } from "../output/format.ts";
import { type Input, UsageError } from "../parse.ts";
import { referenceHelp, resolveHalves, resolveRuns } from "../references.ts";
import { checkpointsOf } from "./checkpoint.ts";

const types: Readonly<Record<string, string>> = {
  weights: "training",
  sampler_weights: "sampler",
  training: "training",
  sampler: "sampler",
};
/** Maximum number of concurrent deletions. */
const concurrency = 32;

export const checkpointDelete: Command = {
  usage: "checkpoint delete (CHECKPOINT... | --run-id RUN [--type T] [--before DATE] [--after DATE]) [--yes]",
  about:
    `Permanently deletes checkpoints: ${referenceHelp}.\n` +
    "A short name deletes both the training state and the sampler weights, a tinker:// path only what it names. Dates are UTC, ISO 8601.",
  arguments: ["CHECKPOINT..."],
  options: {
    "run-id": {
      type: "string",
      value: "RUN",
      about: "all checkpoints of this run (name, id or folder) that match the filters",
    },
    type: { type: "string", about: "weights or sampler_weights" },
    before: { type: "string", value: "DATE", about: "created before this date" },
    after: { type: "string", value: "DATE", about: "created after this date" },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: ["checkpoint delete --run-id RUN --type weights --before 2026-06-01", "checkpoint delete bike@step-20 -y"],
  async run(input, context) {
    const runId = input.text("run-id");
    checkChoice(input, runId);
    const rest = (await context.service()).createRestClient();
    let paths: readonly string[];
    let known: readonly Checkpoint[] | undefined;
    if (runId === undefined) {
      const halves = await Promise.all(input.positionals.map((one) => resolveHalves(one, async () => rest)));
      paths = [...new Set(halves.flat())];
    } else {
      const fits = filterOf(input);
      known = (await checkpointsOf(await resolveRuns(runId, async () => rest), rest, context.signal)).filter(fits);
      if (known.length === 0) return report([], [], context, `No checkpoints found for run ${runId} matching filters`);
      paths = known.map(({ tinkerPath }) => tinkerPath);
    }
    const sizes = known?.reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0);
    const total = sizes === undefined ? undefined : `Total size: ${formatSize(sizes)}`;
    if (!input.flag("yes") && !(await confirmed("checkpoint(s)", known?.map(described) ?? paths, context, total)))
      return report([], [], context, "Deletion cancelled.");
    return report(paths, await deleteAll(paths, rest, context), context);
  },
};

interface Failed {
  readonly tinker_path: string;
  readonly error: string;
}

/** Prints what was deleted. @param instead - text to print when nothing was attempted. @returns 1 if a deletion failed, else 0 */
function report(paths: readonly string[], failed: readonly Failed[], { output }: Context, instead?: string): number {
  const deleted = paths.length - failed.length;
  if (output.isJson) output.event({ deleted_count: deleted, failed });
  else {
    output.line(instead ?? `Deleted ${deleted} checkpoint(s)`);
    if (failed.length > 0) output.line(`Failed to delete ${failed.length} checkpoint(s):`);
    for (const { tinker_path, error } of failed) output.line(`  - ${tinker_path}: ${error}`);
  }
  return failed.length === 0 ? 0 : 1;
}

function checkChoice(input: Input, runId: string | undefined): void {
  if (input.positionals.length === 0 && runId === undefined) {
    throw new UsageError("Must specify checkpoint paths or --run-id");
  }
  if (input.positionals.length > 0 && runId !== undefined) {
    throw new UsageError("Cannot specify both checkpoint paths and --run-id");
  }
  if (runId === undefined && ["type", "before", "after"].some((name) => input.text(name) !== undefined)) {
    throw new UsageError("--type, --before, and --after require --run-id");
  }
}

/** The filter of `--type`, `--before` and `--after`. */
function filterOf(input: Input): (checkpoint: Checkpoint) => boolean {
  const type = input.text("type");
  if (type !== undefined && !Object.hasOwn(types, type)) {
    throw new UsageError(`Invalid checkpoint type: ${type} (valid: weights, sampler_weights)`);
  }
  const [before, after] = [date(input.text("before")), date(input.text("after"))];
  return ({ checkpointType, time }) =>
    (type === undefined || checkpointType === types[type]) &&
    (before === undefined || time < before) &&
    (after === undefined || time > after);
}

/** Parses a date or a time in ISO 8601; without a zone it is UTC. */
export function date(text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const trimmed = text.trim();
  const parts = /^\d{4}-\d\d-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)?(Z|[+-]\d\d:?\d\d)?$/.exec(trimmed);
  const zoned = parts === null || parts[1] !== undefined || trimmed.length === 10 ? trimmed : `${trimmed}Z`;
  const time = new Date(/^\d{4}-\d\d-\d\d[T ]\d\d(Z|$)/.test(zoned) ? zoned.replace(/([T ]\d\d)/, "$1:00") : zoned);
  if (parts !== null && !Number.isNaN(time.getTime())) return time;
  throw new UsageError(`Invalid date: ${trimmed} (ISO 8601: 2024-01-01, 2024-01-01T12:00:00Z)`);
}

const described = ({ tinkerPath, sizeBytes, time }: Checkpoint) =>
  `${tinkerPath} (${sizeBytes === undefined ? "N/A" : formatSize(sizeBytes)}, created ${formatTimestamp(time)})`;

async function deleteAll(paths: readonly string[], rest: RestClient, { output, signal }: Context) {
  const failed: Failed[] = [];
  const left = [...paths];
  const worker = async () => {
    for (let path = left.shift(); path !== undefined; path = left.shift()) {
      try {
        await rest.deleteCheckpointFromTinkerPath(path, { signal });
      } catch (error) {
        signal.throwIfAborted();
        failed.push({ tinker_path: path, error: error instanceof Error ? error.message : String(error) });
      }
      output.progress(`Deleting checkpoints: ${paths.length - left.length} of ${paths.length}`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, paths.length) }, worker));
  output.endProgress();
  return failed;
}
