/**
 * Resolves a model id to weights. Short names are those of the command line and of the chat endpoints; they are looked up in the server's
 * lists of checkpoints, so they work with any Tinker server.
 */
import { NoSuchModelError } from "@ai-sdk/provider";
import type { Checkpoint, RestClient, ServiceClient } from "@tinklet/sdk";

/** The weights of a sampler. */
export type SamplerSource =
  | { readonly baseModel: string; readonly modelPath?: never }
  | { readonly modelPath: string; readonly baseModel?: never };

/** A run id, for example `session:train:0`, with an optional checkpoint name. */
const shortName = /^([^/]+:train:\d+)(?::([^/]+))?$/;

/** @throws NoSuchModelError if no sampler weights exist under a short name. */
export async function findSource(service: ServiceClient, modelId: string): Promise<SamplerSource> {
  if (modelId.startsWith("tinker://")) return { modelPath: modelId };
  const [, run, name] = shortName.exec(modelId) ?? [];
  if (modelId !== "@latest" && run === undefined) return { baseModel: modelId };
  const rest = service.createRestClient();
  const found = await (run === undefined ? checkpointsOfAll(rest) : checkpointsOf(rest, run));
  const latest = found
    .filter(({ checkpointType }) => checkpointType === "sampler")
    .filter(({ checkpointId }) => name === undefined || checkpointId.split("/").at(-1) === name)
    .toSorted((a, b) => a.time.getTime() - b.time.getTime())
    .at(-1);
  if (latest !== undefined) return { modelPath: latest.tinkerPath };
  throw new NoSuchModelError({
    modelId,
    modelType: "languageModel",
    message: `No sampler weights found for ${JSON.stringify(modelId)}. Save some with saveWeightsForSampler().`,
  });
}

/** Checkpoints of all training runs. Adapters imported for sampling have no run and are not included. */
async function checkpointsOfAll(rest: RestClient): Promise<readonly Checkpoint[]> {
  const runs = new Set<string>();
  for await (const { trainingRunId } of rest.listTrainingRuns({ limit: 1000 })) runs.add(trainingRunId);
  const found: Checkpoint[] = [];
  for await (const checkpoint of rest.listUserCheckpoints({ limit: 1000 })) {
    if (runs.has(checkpoint.tinkerPath.split("/")[2]!)) found.push(checkpoint);
  }
  return found;
}

/** Empty if the run does not exist. */
async function checkpointsOf(rest: RestClient, run: string): Promise<readonly Checkpoint[]> {
  try {
    return (await rest.listCheckpoints(run)).checkpoints;
  } catch (error) {
    if ((error as { readonly status?: number }).status === 404) return [];
    throw error;
  }
}
