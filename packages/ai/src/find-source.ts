/**
 * What a model's name stands for. Short names are those of the command line and of the chat endpoints, as far as any Tinker server can tell:
 * they are looked up in its lists of checkpoints.
 */
import { NoSuchModelError } from "@ai-sdk/provider";
import type { Checkpoint, RestClient, ServiceClient } from "@tinklet/sdk";

/** What a sampler is made from. */
export type SamplerSource =
  | { readonly baseModel: string; readonly modelPath?: never }
  | { readonly modelPath: string; readonly baseModel?: never };

/** Run ids end so: `session:train:0`. What may follow is a checkpoint's name. */
const shortName = /^([^/]+:train:\d+)(?::([^/]+))?$/;

/** @throws NoSuchModelError for a short name without weights that can be sampled from. */
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
    message: `There are no weights for sampling under ${JSON.stringify(modelId)}; saveWeightsForSampler makes some.`,
  });
}

/** Those of training runs: adapters that were imported to sample from them belong to none. */
async function checkpointsOfAll(rest: RestClient): Promise<readonly Checkpoint[]> {
  const runs = new Set<string>();
  for await (const { trainingRunId } of rest.listTrainingRuns({ limit: 1000 })) runs.add(trainingRunId);
  const found: Checkpoint[] = [];
  for await (const checkpoint of rest.listUserCheckpoints({ limit: 1000 })) {
    if (runs.has(checkpoint.tinkerPath.split("/")[2]!)) found.push(checkpoint);
  }
  return found;
}

/** None where there is no such run. */
async function checkpointsOf(rest: RestClient, run: string): Promise<readonly Checkpoint[]> {
  try {
    return (await rest.listCheckpoints(run)).checkpoints;
  } catch (error) {
    if ((error as { readonly status?: number }).status === 404) return [];
    throw error;
  }
}
