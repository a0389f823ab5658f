/** Messages about saving and loading weights during training. Messages about stored checkpoints are in `checkpoints.ts`. */
import { bool, int, json, literal, map, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import { message } from "../schema/message.ts";
import type { UserMetadata } from "./session.ts";
import type { ModelID } from "./training.ts";

/** Saves weights, optimizer state and step number under a name. */
export interface SaveWeightsRequest {
  readonly modelId: ModelID;
  /** The checkpoint's name, without a path. */
  readonly path?: string;
  readonly seqId?: number;
  readonly ttlSeconds?: number;
  /** Replace a checkpoint of that name. @defaultValue false */
  readonly overwrite: boolean;
  /** Newer than 0.25. */
  readonly userMetadata?: Readonly<Record<string, string>>;
  readonly type: "save_weights";
}
export const SaveWeightsRequest = message<SaveWeightsRequest, "overwrite" | "type">("SaveWeightsRequest", {
  modelId: string(),
  path: optional(string()),
  seqId: optional(int()),
  ttlSeconds: optional(int()),
  overwrite: withDefault(bool(), false),
  userMetadata: optional(map(string())),
  type: literal("save_weights"),
});

/** Where a checkpoint was saved. */
export interface SaveWeightsResponse {
  /** A `tinker://` path. */
  readonly path: string;
  readonly type?: "save_weights";
}
export const SaveWeightsResponse = message<SaveWeightsResponse>("SaveWeightsResponse", {
  path: string(),
  type: optional(oneOf("save_weights")),
});

/** Saves weights for sampling: under a name, or, with a sampling session's number, for the lifetime of that session. */
export interface SaveWeightsForSamplerRequest {
  readonly modelId: ModelID;
  readonly path?: string;
  readonly samplingSessionSeqId?: number;
  readonly seqId?: number;
  readonly ttlSeconds?: number;
  /** Newer than 0.25. */
  readonly userMetadata?: Readonly<Record<string, string>>;
  readonly type: "save_weights_for_sampler";
}
export const SaveWeightsForSamplerRequest = message<SaveWeightsForSamplerRequest, "type">(
  "SaveWeightsForSamplerRequest",
  {
    modelId: string(),
    path: optional(string()),
    samplingSessionSeqId: optional(int()),
    seqId: optional(int()),
    ttlSeconds: optional(int()),
    userMetadata: optional(map(string())),
    type: literal("save_weights_for_sampler"),
  },
);

/** The server's answer to a save for sampling: a path for a named save, a sampling session for an unnamed one. */
export interface SaveWeightsForSamplerResponseInternal {
  readonly path?: string;
  readonly samplingSessionId?: string;
  readonly type?: "save_weights_for_sampler";
}
export const SaveWeightsForSamplerResponseInternal = message<SaveWeightsForSamplerResponseInternal>(
  "SaveWeightsForSamplerResponseInternal",
  {
    path: optional(string()),
    samplingSessionId: optional(string()),
    type: optional(oneOf("save_weights_for_sampler")),
  },
);

/** The result of a named save for sampling, as the user gets it. */
export interface SaveWeightsForSamplerResponse {
  readonly path: string;
  readonly type?: "save_weights_for_sampler";
}
export const SaveWeightsForSamplerResponse = message<SaveWeightsForSamplerResponse>("SaveWeightsForSamplerResponse", {
  path: string(),
  type: optional(oneOf("save_weights_for_sampler")),
});

/** Loads a checkpoint into a model, or, with a session id, creates a model from it. */
export interface LoadWeightsRequest {
  readonly modelId?: ModelID;
  readonly seqId?: number;
  readonly sessionId?: string;
  readonly modelSeqId?: number;
  readonly baseModel?: string;
  readonly userMetadata?: UserMetadata;
  readonly path: string;
  /** Load the optimizer's state too. */
  readonly optimizer: boolean;
  /** Newer than 0.25. */
  readonly optimizerConfig?: UserMetadata;
  /** A credential for another account's weights. */
  readonly weightsAccessToken?: string;
  readonly type: "load_weights";
}
export const LoadWeightsRequest = message<LoadWeightsRequest, "type">("LoadWeightsRequest", {
  modelId: optional(string()),
  seqId: optional(int()),
  sessionId: optional(string()),
  modelSeqId: optional(int()),
  baseModel: optional(string()),
  userMetadata: optional(map(json())),
  path: string(),
  optimizer: bool(),
  optimizerConfig: optional(map(json())),
  weightsAccessToken: optional(string()),
  type: literal("load_weights"),
});

/** A checkpoint was loaded. */
export interface LoadWeightsResponse {
  readonly path?: string;
  readonly modelId?: ModelID;
  readonly type?: "load_weights";
}
export const LoadWeightsResponse = message<LoadWeightsResponse>("LoadWeightsResponse", {
  path: optional(string()),
  modelId: optional(string()),
  type: optional(oneOf("load_weights")),
});

/** The server's answer to a save of external files. */
export interface SaveWeightsExternalResponseInternal {
  readonly path?: string;
  readonly sizeBytes?: number;
  readonly type?: "save_weights_external";
}
export const SaveWeightsExternalResponseInternal = message<SaveWeightsExternalResponseInternal>(
  "SaveWeightsExternalResponseInternal",
  {
    path: optional(string()),
    sizeBytes: optional(int()),
    type: optional(oneOf("save_weights_external")),
  },
);

/** Where the external files were saved. */
export interface SaveWeightsExternalResponse {
  readonly path: string;
  readonly type?: "save_weights_external";
}
export const SaveWeightsExternalResponse = message<SaveWeightsExternalResponse>("SaveWeightsExternalResponse", {
  path: string(),
  type: optional(oneOf("save_weights_external")),
});
