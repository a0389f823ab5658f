/**
 * Short names for checkpoints, wherever one is expected: `@latest`, `run:name`, the folder of a run, or the whole
 * `tinker://` path.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { RestClient } from "../clients/rest-client.ts";
import type { Checkpoint } from "../wire/rest.ts";
import { CliError } from "./explain.ts";

/** What the checkpoint is for. */
export type CheckpointKind = "training" | "sampler";

const kindFolder = { training: "weights", sampler: "sampler_weights" } as const;

/** The help of every argument that takes one. */
export const referenceHelp = "tinker://RUN/weights/NAME, @latest, RUN:NAME, RUN, or the folder of a run";

/**
 * The full path of a checkpoint.
 *
 * @param kind - which of a run's checkpoints is meant where the reference leaves it open.
 * @throws {@link CliError} when nothing fits.
 */
export async function resolveCheckpoint(
  reference: string,
  kind: CheckpointKind,
  rest: () => Promise<RestClient>,
): Promise<string> {
  if (reference.startsWith("tinker://")) return reference;
  if (reference === "@latest") return newest(await ofAccount(await rest()), kind, "this account");
  if (existsSync(reference)) return fromFolder(reference, undefined, kind);
  const cut = reference.lastIndexOf(":");
  const [run, name] = cut < 0 ? [reference, ""] : [reference.slice(0, cut), reference.slice(cut + 1)];
  if (cut > 0 && existsSync(run)) return fromFolder(run, name, kind);
  // Run ids themselves have colons: `session:train:0`.
  if (cut < 0 || /:train:\d+$/.test(reference)) {
    const { checkpoints } = await listed(await rest(), reference);
    return newest(checkpoints, kind, `run ${reference}`);
  }
  const { checkpoints } = await listed(await rest(), run);
  const path = `tinker://${run}/${kindFolder[kind]}/${name}`;
  if (checkpoints.some(({ tinkerPath }) => tinkerPath === path)) return path;
  const known = checkpoints
    .filter(({ checkpointType }) => checkpointType === kind)
    .map(({ checkpointId }) => checkpointId.split("/").at(-1));
  throw new CliError(`Run ${run} has no ${kind} checkpoint "${name}".`, {
    hint: known.length === 0 ? `It has no ${kind} checkpoints at all.` : `It has: ${known.join(", ")}.`,
  });
}

async function listed(rest: RestClient, run: string): Promise<{ checkpoints: readonly Checkpoint[] }> {
  try {
    return await rest.listCheckpoints(run);
  } catch (cause) {
    if ((cause as { status?: number }).status !== 404) throw cause;
    throw new CliError(`"${run}" is neither a folder nor a training run.`, {
      cause,
      hint: `A checkpoint is ${referenceHelp}.`,
    });
  }
}

async function ofAccount(rest: RestClient): Promise<Checkpoint[]> {
  const found: Checkpoint[] = [];
  for await (const checkpoint of rest.listUserCheckpoints({ limit: 1000 })) found.push(checkpoint);
  return found;
}

function newest(checkpoints: readonly Checkpoint[], kind: CheckpointKind, where: string): string {
  const last = checkpoints
    .filter(({ checkpointType }) => checkpointType === kind)
    .reduce<Checkpoint | undefined>((a, b) => (a === undefined || b.time >= a.time ? b : a), undefined);
  if (last !== undefined) return last.tinkerPath;
  throw new CliError(`There is no ${kind} checkpoint in ${where}.`, {
    hint:
      kind === "sampler"
        ? "Save one with saveWeightsForSampler, or finish a tinklet train."
        : "Save one with saveState.",
  });
}

async function fromFolder(folder: string, name: string | undefined, kind: CheckpointKind): Promise<string> {
  const { RunFolder } = await import("@tinklet/cookbook");
  const key = kind === "sampler" ? "sampler_path" : "state_path";
  const records = (await RunFolder.at(folder).readCheckpoints()).filter((record) => record[key] !== undefined);
  const record = name === undefined ? records.at(-1) : records.findLast((one) => one.name === name);
  if (record !== undefined) return record[key] as string;
  const known = records.map((one) => one.name);
  throw new CliError(
    `${join(folder, "checkpoints.jsonl")} has no ${kind} checkpoint${name === undefined ? "" : ` "${name}"`}.`,
    {
      ...(known.length === 0 ? {} : { hint: `It has: ${known.join(", ")}.` }),
    },
  );
}
