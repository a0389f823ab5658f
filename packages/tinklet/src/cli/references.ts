/**
 * Resolves references to runs and checkpoints: names (`bike`, `bike@step-40`), `@latest`, ids, run folders, and `tinker://` paths. Except
 * for a path, a reference means a checkpoint with two files, training state and sampler weights; the caller chooses between them.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { RestClient } from "@tinklet/sdk";
import type { Checkpoint, TrainingRun } from "@tinklet/wire";
import { closest } from "@tinklet/wire/options";
import { checkpointNames, nameKey, resumedFromKey, runNameProblem, shownCheckpoint } from "@tinklet/wire/run-name";
import { CliError } from "./output/explain.ts";

/** The two files of a checkpoint. */
export type CheckpointKind = "training" | "sampler";

/** Help text of every argument that takes a reference. */
export const referenceHelp =
  "NAME, NAME@CHECKPOINT, @latest, a run folder, RUN_ID, RUN_ID:CHECKPOINT or tinker://RUN/weights/NAME";

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
  const found = fitting(place, kind).at(-1);
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
export const runReferenceHelp = "a run's name or id, a run folder, or a tinker:// path";

/**
 * The run ids that a reference means, oldest first. A name and a folder can have several, because resuming after an interruption creates
 * another run on the server.
 *
 * @throws {@link CliError} when a folder has no checkpoints, or the reference cannot be an id
 */
export async function resolveRuns(reference: string, rest: () => Promise<RestClient>): Promise<readonly string[]> {
  const inside = existsSync(reference) ? await inFolder(reference) : undefined;
  if (inside !== undefined && inside.candidates.length > 0) return [...new Set(inside.candidates.map(runOf))];
  if (reference.startsWith("tinker://")) return [runOf({ path: reference })];
  if (runNameProblem(reference) === undefined) {
    const named = await runsNamed(reference, await rest());
    if (named.length > 0) return named;
  }
  if (inside !== undefined) {
    throw new CliError(`${inside.title} has no checkpoints, so it names no run.`, {
      hint: "npx tinklet run list shows the runs of the server.",
    });
  }
  if (!reference.includes("/")) return [reference];
  throw new CliError(`"${reference}" is neither a folder nor a run.`, {
    hint: `Give ${runReferenceHelp}; npx tinklet run list shows the runs.`,
  });
}

/** The name of a run: the one that a Tinklet server assigned, else the one that its program sent. */
export const nameOf = ({ name, userMetadata }: TrainingRun): string | undefined => name ?? userMetadata?.[nameKey];

/**
 * Ids of the runs of the account with this name, oldest first; several if they resume each other.
 *
 * @throws {@link CliError} when several separate runs have the name, on a server that does not make names unique
 */
async function runsNamed(name: string, rest: RestClient): Promise<string[]> {
  const found: TrainingRun[] = [];
  for await (const run of rest.listTrainingRuns({ limit: 1000 })) if (nameOf(run) === name) found.push(run);
  const separate = found.filter((run) => run.name === undefined && run.userMetadata?.[resumedFromKey] === undefined);
  if (separate.length > 1) {
    throw new CliError(`${separate.length} runs of this account have the name "${name}".`, {
      hint: `Give an id instead: ${separate.map(({ trainingRunId }) => trainingRunId).join(", ")}.`,
    });
  }
  return found.reverse().map(({ trainingRunId }) => trainingRunId);
}

/** Whether a reference is a folder. A run's name is not hidden by a folder without checkpoints of the same name. */
const isFolder = (reference: string): boolean =>
  existsSync(reference) &&
  (runNameProblem(reference) !== undefined || existsSync(join(reference, "checkpoints.jsonl")));

/** The candidates that the reference means: those with the preferred one of the possible names. */
function fitting({ candidates, name }: Place, kind?: CheckpointKind): readonly Candidate[] {
  const all = kind === undefined ? candidates : candidates.filter((one) => one.kind === kind);
  if (name === undefined) return all;
  for (const stored of checkpointNames(name)) {
    const found = all.filter((one) => one.name === stored);
    if (found.length > 0) return found;
  }
  return [];
}

const runOf = ({ path }: Pick<Candidate, "path">) => path.split("/")[2] as string;

async function lookUp(reference: string, rest: () => Promise<RestClient>): Promise<Place> {
  if (reference === "@latest") {
    return { candidates: inOrder(await ofRuns(await rest())), title: "This account" };
  }
  if (isFolder(reference)) return inFolder(reference);
  const at = reference.lastIndexOf("@");
  const colon = reference.lastIndexOf(":");
  // Run ids themselves have colons: `session:train:0`.
  const cut = at > 0 ? at : /:train:\d+$/.test(reference) ? -1 : colon;
  const [place, name] = cut > 0 ? [reference.slice(0, cut), reference.slice(cut + 1)] : [reference, undefined];
  if (isFolder(place)) return { ...(await inFolder(place)), name };
  if (/[/\\]/.test(place))
    throw new CliError(`There is no folder ${place}.`, { hint: `A checkpoint is ${referenceHelp}.` });
  return { ...(await inRun(place, await rest())), name };
}

async function inRun(run: string, rest: RestClient): Promise<Place> {
  const named = runNameProblem(run) === undefined ? await runsNamed(run, rest) : [];
  try {
    const found: Checkpoint[] = [];
    for (const id of named.length > 0 ? named : [run]) found.push(...(await rest.listCheckpoints(id)).checkpoints);
    return { candidates: inOrder(found), title: `Run ${run}` };
  } catch (cause) {
    if ((cause as { status?: number }).status !== 404) throw cause;
    throw new CliError(`"${run}" is neither a run folder nor the name or id of a run.${await meant(run, rest)}`, {
      cause,
      hint: /\.gguf$/i.test(run)
        ? "A GGUF file is a base model: give it with --model."
        : `A checkpoint is ${referenceHelp}. npx tinklet run list shows the runs.`,
    });
  }
}

/** A suggestion for the misspelt name of a run. */
async function meant(word: string, rest: RestClient): Promise<string> {
  const names = new Set<string>();
  for await (const run of rest.listTrainingRuns({ limit: 1000 })) {
    const name = nameOf(run);
    if (name !== undefined) names.add(name);
  }
  const near = closest(word, names);
  return near === undefined ? "" : ` Did you mean ${near}?`;
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
    ...new Set(
      candidates.filter((one) => kind === undefined || one.kind === kind).map((one) => shownCheckpoint(one.name)),
    ),
  ];
  const what = kind === undefined ? "checkpoint" : `${kind} checkpoint`;
  if (name !== undefined && known.length > 0) {
    return new CliError(`${title} has no ${what} "${name}".`, { hint: `It has: ${known.join(", ")}.` });
  }
  return new CliError(`${title} has no ${name === undefined ? what : `${what} "${name}"`}.`, {
    hint: `${known.length === 0 && name !== undefined ? `It has no ${what}s. ` : ""}npx tinklet train saves checkpoints; npx tinklet checkpoint list shows them.`,
  });
}
