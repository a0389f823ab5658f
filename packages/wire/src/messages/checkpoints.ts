/** Messages about stored checkpoints: their description, time to live, copies and external files. */
import { date } from "../schema/dates.ts";
import { bool, int, json, list, literal, map, nullable, optional, string } from "../schema/fields.ts";
import { message } from "../schema/message.ts";
import type { UserMetadata } from "./session.ts";
import type { ModelID } from "./training.ts";

/** Asks for the base model and settings of a checkpoint. */
export interface WeightsInfoRequest {
  readonly tinkerPath: string;
}
export const WeightsInfoRequest = message<WeightsInfoRequest>("WeightsInfoRequest", { tinkerPath: string() });

/** Base model and settings of a checkpoint. */
export interface WeightsInfoResponse {
  readonly baseModel: string;
  readonly isLora: boolean;
  readonly loraRank?: number;
  readonly trainUnembed?: boolean;
  readonly trainMlp?: boolean;
  readonly trainAttn?: boolean;
  /** Newer than 0.25. */
  readonly optimizerConfig?: UserMetadata;
}
export const WeightsInfoResponse = message<WeightsInfoResponse>("WeightsInfoResponse", {
  baseModel: string(),
  isLora: bool(),
  loraRank: optional(int()),
  trainUnembed: optional(bool()),
  trainMlp: optional(bool()),
  trainAttn: optional(bool()),
  optimizerConfig: optional(map(json())),
});

/** Sets or removes a checkpoint's time to live; an explicit null removes it. */
export interface SetCheckpointTtlRequest {
  readonly ttlSeconds: number | null;
}
export const SetCheckpointTtlRequest = message<SetCheckpointTtlRequest>("SetCheckpointTtlRequest", {
  ttlSeconds: nullable(int()),
});

/** Saves weights as plain files that can be downloaded one by one. Newer than 0.25. */
export interface SaveWeightsExternalRequest {
  readonly modelId: ModelID;
  /** The checkpoint's name, without a path. */
  readonly path: string;
  readonly seqId?: number;
  readonly ttlSeconds?: number;
  /** Public keys of the tool `age`; the files are encrypted for their owners. */
  readonly ageEncryptionRecipients?: readonly string[];
  readonly type: "save_weights_external";
}
export const SaveWeightsExternalRequest = message<SaveWeightsExternalRequest, "type">("SaveWeightsExternalRequest", {
  modelId: string(),
  path: string(),
  seqId: optional(int()),
  ttlSeconds: optional(int()),
  ageEncryptionRecipients: optional(list(string())),
  type: literal("save_weights_external"),
});

/** URLs of the files of an external checkpoint, and when they expire. */
export interface ExternalWeightsUrlsResponse {
  readonly urls: Readonly<Record<string, string>>;
  readonly expires: Date;
}
export const ExternalWeightsUrlsResponse = message<ExternalWeightsUrlsResponse>("ExternalWeightsUrlsResponse", {
  urls: map(string()),
  expires: date(),
});

/** Copies a checkpoint into a session or a project of the caller. Newer than 0.25. */
export interface CopyWeightsRequest {
  readonly sessionId?: string;
  readonly modelSeqId?: number;
  readonly destinationProjectId?: string;
  readonly sourcePath: string;
  readonly ttlSeconds?: number;
  /** A credential for another account's weights. */
  readonly weightsAccessToken?: string;
}
export const CopyWeightsRequest = message<CopyWeightsRequest>("CopyWeightsRequest", {
  sessionId: optional(string()),
  modelSeqId: optional(int()),
  destinationProjectId: optional(string()),
  sourcePath: string(),
  ttlSeconds: optional(int()),
  weightsAccessToken: optional(string()),
});

/** The path of the copy. */
export interface CopyWeightsResponse {
  readonly tinkerPath: string;
}
export const CopyWeightsResponse = message<CopyWeightsResponse>("CopyWeightsResponse", { tinkerPath: string() });
