/**
 * Resolves references to checkpoints: `@latest`, `run:name`, a run folder, or a `tinker://` path. Except for a path, a reference
 * means a checkpoint with two files, training state and sampler weights; the caller chooses between them.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { RestClient } from "@tinklet/sdk";
import type { Checkpoint } from "@tinklet/wire";
import { CliError } from "./output/explain.ts";

/** The two files of a checkpoint. */
export type CheckpointKind = "training" | "sampler";

/** Help text of every argument that takes a reference. */
export const referenceHelp = "tinker://RUN/weights/NAME, @latest, RUN:NAME, RUN, or a run folder";

/** A checkpoint that a reference may mean. */
interface Candidate {
  readonly path: string;
  readonly kind: CheckpointKind;
  /** The same for training state and sampler weights of one checkpoint. */
  readonly name: string;
}

/** The run or folder of a reference. */
interface Place {
  /** Oldest first. */
  readonly candidates: readonly Candidate[];
  /** The checkpoint name in the reference. */
  readonly name?: string | undefined;
  /** Subject of error messages. */
  readonly title: string;
}

/**
 * The `tinker://` path of a checkpoint.
 *
 * @param kind - the file to choose if the reference is not a path
 * @throws {@link CliError} when no checkpoint matches
 */
export async function resolveCheckpoint(
  reference: string,
  kind: CheckpointKind,
  rest: () => Promise<RestClient>,
): Promise<string> {
  if (reference.startsWith("tinker://")) return reference;
  const place = await lookUp(reference, rest);
  const found = fitting(place).findLast((one) => one.kind === kind);
  if (found === undefined) throw nothingFits(place, kind);
  return found.path;
}

/**
 * All paths that a reference means: a `tinker://` path is one path, a short name is the training state and the sampler weights
 * of a checkpoint, if they exist.
 *
 * @throws {@link CliError} when no checkpoint matches
 */
export async function resolveHalves(reference: string, rest: () => Promise<RestClient>): Promise<readonly string[]> {
  if (reference.startsWith("tinker://")) return [reference];
  const place = await lookUp(reference, rest);
  const all = fitting(place);
  const last = all.at(-1);
  if (last === undefined) throw nothingFits(place, undefined);
  return [
    ...new Set(all.filter((one) => one.name === last.name && runOf(one) === runOf(last)).map(({ path }) => path)),
  ];
}

/** Help text of every argument that takes a run. */
export const runReferenceHelp = "a run id, a run folder, or a tinker:// path";

/**
 * The run ids that a reference means, oldest first. A folder can have several, because resuming after an interruption creates another
 * run on the server.
 *
 * @throws {@link CliError} when a folder has no checkpoints, or the reference cannot be an id
 */
export async function resolveRuns(reference: string): Promise<readonly string[]> {
  if (existsSync(reference)) {
    const { candidates, title } = await inFolder(reference);
    if (candidates.length > 0) return [...new Set(candidates.map(runOf))];
    throw new CliError(`${title} has no checkpoints, so it names no run.`, {
      hint: "tinklet run list shows the runs of the server.",
    });
  }
  if (reference.startsWith("tinker://")) return [runOf({ path: reference })];
  if (!reference.includes("/")) return [reference];
  throw new CliError(`"${reference}" is neither a folder nor a run id.`, {
    hint: `Give ${runReferenceHelp}; tinklet run list shows the runs.`,
  });
}

const fitting = ({ candidates, name }: Place) =>
  name === undefined ? candidates : candidates.filter((one) => one.name === name);

const runOf = ({ path }: Pick<Candidate, "path">) => path.split("/")[2] as string;

async function lookUp(reference: string, rest: () => Promise<RestClient>): Promise<Place> {
  if (reference === "@latest") {
    return { candidates: inOrder(await ofRuns(await rest())), title: "This account" };
  }
  if (existsSync(reference)) return inFolder(reference);
  const cut = reference.lastIndexOf(":");
  const [run, name] = cut < 0 ? [reference, ""] : [reference.slice(0, cut), reference.slice(cut + 1)];
  if (cut > 0 && existsSync(run)) return { ...(await inFolder(run)), name };
  const place = cut > 0 ? run : reference;
  if (/[/\\]/.test(place))
    throw new CliError(`There is no folder ${place}.`, { hint: `A checkpoint is ${referenceHelp}.` });
  // Run ids themselves have colons: `session:train:0`.
  if (cut < 0 || /:train:\d+$/.test(reference)) return inRun(reference, await rest());
  return { ...(await inRun(run, await rest())), name };
}

async function inRun(run: string, rest: RestClient): Promise<Place> {
  try {
    const { checkpoints } = await rest.listCheckpoints(run);
    return { candidates: inOrder(checkpoints), title: `Run ${run}` };
  } catch (cause) {
    if ((cause as { status?: number }).status !== 404) throw cause;
    throw new CliError(`"${run}" is neither a folder nor a training run.`, {
      cause,
      hint: `A checkpoint is ${referenceHelp}.`,
    });
  }
}

/** The checkpoints of all training runs, without imported adapters, which belong to no run. */
async function ofRuns(rest: RestClient): Promise<Checkpoint[]> {
  const runs = new Set<string>();
  for await (const { trainingRunId } of rest.listTrainingRuns({ limit: 1000 })) runs.add(trainingRunId);
  const found: Checkpoint[] = [];
  for await (const checkpoint of rest.listUserCheckpoints({ limit: 1000 }))
    if (runs.has(runOf({ path: checkpoint.tinkerPath }))) found.push(checkpoint);
  return found;
}

/** Oldest first. Of two with the same time, the one that the server listed later counts as the newer. */
function inOrder(checkpoints: readonly Checkpoint[]): Candidate[] {
  return checkpoints
    .filter(({ checkpointType }) => checkpointType === "training" || checkpointType === "sampler")
    .toSorted((a, b) => a.time.getTime() - b.time.getTime())
    .map(({ tinkerPath, checkpointType, checkpointId }) => ({
      path: tinkerPath,
      kind: checkpointType as CheckpointKind,
      name: checkpointId.split("/").at(-1) as string,
    }));
}

async function inFolder(folder: string): Promise<Place> {
  const { RunFolder } = await import("@tinklet/cookbook");
  const records = await RunFolder.at(folder).readCheckpoints();
  const candidates = records.flatMap(({ name, state_path, sampler_path }): Candidate[] => [
    ...(state_path === undefined ? [] : [{ path: state_path, kind: "training" as const, name }]),
    ...(sampler_path === undefined ? [] : [{ path: sampler_path, kind: "sampler" as const, name }]),
  ]);
  return { candidates, title: join(folder, "checkpoints.jsonl") };
}

function nothingFits({ candidates, name, title }: Place, kind: CheckpointKind | undefined): CliError {
  const known = [
    ...new Set(candidates.filter((one) => kind === undefined || one.kind === kind).map((one) => one.name)),
  ];
  const what = kind === undefined ? "checkpoint" : `${kind} checkpoint`;
  if (name !== undefined && known.length > 0) {
    return new CliError(`${title} has no ${what} "${name}".`, { hint: `It has: ${known.join(", ")}.` });
  }
  return new CliError(`${title} has no ${name === undefined ? what : `${what} "${name}"`}.`, {
    hint: `${known.length === 0 && name !== undefined ? `It has no ${what}s. ` : ""}tinklet train saves checkpoints; tinklet checkpoint list shows them.`,
  });
}
