/** `run delete`: deletes a run and its checkpoints after a confirmation. If the server cannot delete runs, deletes its checkpoints only. */
import type { RestClient } from "@tinklet/sdk";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { confirmed } from "../output/confirm.ts";
import { CliError } from "../output/explain.ts";
import { resolveRuns, runReferenceHelp } from "../references.ts";

export const runDelete: Command = {
  usage: "run delete RUN... [--yes]",
  about:
    `Permanently deletes training runs and all their checkpoints: ${runReferenceHelp}.\n` +
    "A name means the run and the runs that it resumed, a folder every run whose checkpoints it lists; the folder itself is not\n" +
    "changed. Servers other than Tinklet's cannot delete a run; there only its checkpoints are deleted.",
  arguments: ["RUN", "MORE..."],
  options: { yes: { type: "boolean", short: "y", about: "do not ask" } },
  examples: ["run delete bike --local", "run delete runs/data --local"],
  async run(input, context) {
    const { output } = context;
    const rest = (await context.service()).createRestClient();
    const runs = [
      ...new Set((await Promise.all(input.positionals.map((one) => resolveRuns(one, async () => rest)))).flat()),
    ];
    const counts: number[] = [];
    for (const run of runs)
      counts.push((await rest.listCheckpoints(run, { signal: context.signal })).checkpoints.length);
    const lines = runs.map((run, at) => `${run} (${counts[at]} checkpoints)`);
    if (!input.flag("yes") && !(await confirmed("training run(s)", lines, context))) {
      if (output.isJson) output.event({ deleted: [] });
      else output.line("Deletion cancelled.");
      return 0;
    }
    const deleted: { run_id: string; deleted_checkpoints: number; run_kept: boolean }[] = [];
    for (const run of runs) deleted.push({ run_id: run, ...(await deleteRun(run, rest, context)) });
    if (output.isJson) output.event({ deleted });
    else {
      for (const { run_id, deleted_checkpoints: n, run_kept } of deleted)
        output.line(
          `Deleted ${run_kept ? `${n} checkpoint(s) of ` : ""}${run_id}${run_kept ? "; the server keeps the run itself" : ` with ${n} checkpoint(s)`}`,
        );
    }
    return 0;
  },
};

async function deleteRun(
  run: string,
  rest: RestClient,
  context: Context,
): Promise<{ deleted_checkpoints: number; run_kept: boolean }> {
  const { signal } = context;
  const { checkpoints } = await rest.listCheckpoints(run, { signal });
  try {
    await (await context.service()).api.deleteRun({ trainingRunId: run }, { signal });
    return { deleted_checkpoints: checkpoints.length, run_kept: false };
  } catch (cause) {
    const { status, message } = cause as { readonly status?: number; readonly message: string };
    if (status === 400)
      throw new CliError(`${run} was not deleted: ${message}`, {
        cause,
        hint: "Stop the program that trains it, and wait until its requests are done.",
      });
    // The run exists, so the route does not: delete the checkpoints, which every server supports.
    if (status !== 404 && status !== 405) throw cause;
  }
  for (const { tinkerPath } of checkpoints) await rest.deleteCheckpointFromTinkerPath(tinkerPath, { signal });
  return { deleted_checkpoints: checkpoints.length, run_kept: true };
}
