/**
 * A model from a checkpoint: by one request that creates and loads, or by creating a model like that of the checkpoint and loading it.
 * Loaded when a training client is first created from a checkpoint.
 */
import type { FutureResult, OptimizerConfig, RequestOf, UserMetadata } from "@tinklet/wire/client";
import { TinkerError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { namedMetadata } from "../named-metadata.ts";
import type { FromStateOptions, LoraOptions } from "../service-client.ts";
import type { Session } from "../session/session.ts";
import { ModelRequests, otherOptimizer } from "./model-requests.ts";
import { TrainingClient } from "./training-client.ts";

/** What the service client does for a new model. */
export interface ModelCreation {
  readonly session: Session;
  readonly signal: AbortSignal;
  /** Creates an untrained model. */
  readonly create: (options: LoraOptions) => Promise<ModelRequests>;
  /** Runs an attempt in an open session, in line if too many models are trained. */
  readonly admitted: (attempt: (sessionId: string) => Promise<ModelRequests>) => Promise<ModelRequests>;
  /** Submits the request and waits for its result. */
  readonly load: (request: RequestOf<"loadWeights">, subject: string) => Promise<FutureResult<"LoadWeights">>;
}

const metadataOf = (options: FromStateOptions): UserMetadata | undefined =>
  options.name === undefined ? options.userMetadata : namedMetadata(options);

export async function modelFromState(
  path: string,
  optimizer: boolean,
  options: FromStateOptions,
  creation: ModelCreation,
): Promise<ModelRequests> {
  const { createModelViaLoadWeights } = await creation.session.connect({ signal: creation.signal });
  const create = createModelViaLoadWeights ? createByLoading : createThenLoad;
  return create(path, optimizer, options, creation);
}

/** Sends one request that creates the model and loads the weights; the model's id is derived from session and sequence number. */
async function createByLoading(
  path: string,
  optimizer: boolean,
  options: FromStateOptions,
  { session, admitted, load }: ModelCreation,
): Promise<ModelRequests> {
  const userMetadata = metadataOf(options);
  const { baseModel, weightsAccessToken } = options;
  return admitted(async (sessionId) => {
    const modelSeqId = session.nextModelSeqId();
    const modelId = `${sessionId}:train:${modelSeqId}`;
    const optimizerConfig = otherOptimizer(options.optimizer);
    const optional = omitUndefined({ baseModel, userMetadata, weightsAccessToken, optimizerConfig });
    await load({ sessionId, modelSeqId, path, optimizer, ...optional }, modelId);
    return new ModelRequests(session, modelId);
  });
}

async function createThenLoad(
  path: string,
  optimizer: boolean,
  options: FromStateOptions,
  { session, signal, create }: ModelCreation,
): Promise<ModelRequests> {
  const { weightsAccessToken } = options;
  const userMetadata = metadataOf(options);
  const token =
    weightsAccessToken === undefined ? undefined : await session.foreignToken(weightsAccessToken, { signal });
  const info = await session.call("weightsInfo", { tinkerPath: path }, { signal, token, facts: { path } });
  if (!info.isLora || info.loraRank === undefined) {
    throw new TinkerError(`${path} is not a LoRA checkpoint. Only LoRA checkpoints can be trained.`, {
      code: "not_lora",
    });
  }
  const { loraRank: rank, trainMlp, trainAttn, trainUnembed } = info;
  const baseModel = options.baseModel ?? info.baseModel;
  const kept = optimizer ? (info.optimizerConfig as OptimizerConfig | undefined) : undefined;
  const shape = { baseModel, rank, trainMlp, trainAttn, trainUnembed };
  const requests = await create({ ...shape, userMetadata, optimizer: kept ?? options.optimizer });
  const trainer = new TrainingClient(requests);
  const load = { signal, weightsAccessToken };
  await (optimizer ? trainer.loadStateWithOptimizer(path, load) : trainer.loadState(path, load));
  return requests;
}
