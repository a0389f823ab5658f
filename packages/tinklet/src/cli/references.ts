/**
 * Short names for checkpoints, wherever one is expected: `@latest`, `run:name`, the folder of a run, or the whole
 * `tinker://` path. A short name means a checkpoint; its two halves, the weights for sampling and the state that training
 * goes on from, are chosen by whoever asks.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { RestClient } from "@tinklet/sdk";
import type { Checkpoint } from "@tinklet/wire";
import { CliError } from "./output/explain.ts";

/** What the checkpoint is for. */
export type CheckpointKind = "training" | "sampler";

/** The help of every argument that takes one. */
export const referenceHelp = "tinker://RUN/weights/NAME, @latest, RUN:NAME, RUN, or the folder of a run";

/** A checkpoint that a reference may mean. */
interface Candidate {
  readonly path: string;
  readonly kind: CheckpointKind;
  /** The two halves of one checkpoint have the same. */
  readonly name: string;
}

/** Where a reference points to. */
interface Place {
  /** Oldest first. */
  readonly candidates: readonly Candidate[];
  /** The name that was asked for. */
  readonly name?: string | undefined;
  /** The place, at the beginning of a sentence. */
  readonly title: string;
}

/**
 * The full path of a checkpoint.
 *
 * @param kind - which half is meant where the reference leaves it open.
 * @throws {@link CliError} when nothing fits.
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
 * Everything that a reference means: a full path is itself, a short name is a checkpoint with both its halves, as far as they
 * are there.
 *
 * @throws {@link CliError} when nothing fits.
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

/** The help of every argument that takes a run. */
export const runReferenceHelp = "the id of a run, the folder of one, or the path of a checkpoint";

/**
 * The runs that a reference means, oldest first: an id is itself; a folder means every run of the server that its checkpoints
 * belong to, for going on after an interruption makes another one.
 *
 * @throws {@link CliError} when a folder names none, or the text cannot be an id.
 */
export async function resolveRuns(reference: string): Promise<readonly string[]> {
  if (existsSync(reference)) {
    const { candidates, title } = await inFolder(reference);
    if (candidates.length > 0) return [...new Set(candidates.map(runOf))];
    throw new CliError(`${title} names no run: nothing was saved there.`, {
      hint: "tinklet run list shows the runs that the server has.",
    });
  }
  if (reference.startsWith("tinker://")) return [runOf({ path: reference })];
  if (!reference.includes("/")) return [reference];
  throw new CliError(`"${reference}" is neither a folder nor the id of a run.`, {
    hint: `Give ${runReferenceHelp}; tinklet run list shows those there are.`,
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

/** The checkpoints of all training runs; adapters that were imported to sample from them belong to none. */
async function ofRuns(rest: RestClient): Promise<Checkpoint[]> {
  const runs = new Set<string>();
  for await (const { trainingRunId } of rest.listTrainingRuns({ limit: 1000 })) runs.add(trainingRunId);
  const found: Checkpoint[] = [];
  for await (const checkpoint of rest.listUserCheckpoints({ limit: 1000 }))
    if (runs.has(runOf({ path: checkpoint.tinkerPath }))) found.push(checkpoint);
  return found;
}

/** Servers list the newest first; of two at the same moment the one listed later counts as the newer. */
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
    hint: `${known.length === 0 && name !== undefined ? `It has no ${what}s at all. ` : ""}tinklet train saves them; tinklet checkpoint list shows those there are.`,
  });
}
