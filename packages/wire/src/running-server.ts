/**
 * The record in a data folder that names the server that uses the folder. `tinklet serve` adds its address and a secret, so that other
 * programs of the same user can use that server (docs/decisions/0022-attach.md). Types and names only; the server writes the record, the
 * SDK reads it.
 */

/** Release of the packages; programs attach to a server of the same release only. */
export const release = "0.1.0";

/** The key for a local server without configured keys, which accepts any well-formed key. */
export const localKey = "tml-local";

/** File name of the record in the data folder; mode 0600. */
export const recordFile = "server.json";

/** Request header with a random challenge. */
export const challengeHeader = "x-tinklet-challenge";
/** Response header with the proof: HMAC-SHA256 of the challenge with the record's secret, in hex. */
export const proofHeader = "x-tinklet-proof";
/** Maximum length of a challenge that a server answers. */
export const maxChallengeLength = 128;

/** A model of the server. */
export interface RecordedModel {
  readonly name: string;
  /** Absolute path or Hub id. */
  readonly source: string;
}

/** How to reach a `tinklet serve`. */
export interface AttachRecord {
  readonly url: string;
  /** API key of the local tenant, and key of the proof. */
  readonly secret: string;
  readonly models: readonly RecordedModel[];
  readonly strict: boolean;
  /** Whether the server has the studio at `/`. */
  readonly studio: boolean;
}

/** The process that uses the data folder. */
export interface ServerRecord {
  readonly pid: number;
  /** Name for messages, such as `tinklet train`. */
  readonly program: string;
  readonly release: string;
  /** Absent for servers inside other programs, and until `tinklet serve` listens. */
  readonly attach?: AttachRecord;
}

/** @returns `undefined` for text that is not a record, for example one that a crash cut off */
export function parseServerRecord(text: string): ServerRecord | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const record = value as Partial<ServerRecord> | null;
  if (typeof record !== "object" || record === null) return undefined;
  const { pid, program, release: writer, attach } = record;
  if (!Number.isSafeInteger(pid) || typeof program !== "string" || typeof writer !== "string") return undefined;
  return attach === undefined || isAttachRecord(attach) ? (record as ServerRecord) : undefined;
}

function isAttachRecord(value: unknown): value is AttachRecord {
  const { url, secret, models, strict, studio } = (value ?? {}) as Partial<AttachRecord>;
  return (
    typeof url === "string" &&
    /^http:\/\/[^/]+$/.test(url) &&
    typeof secret === "string" &&
    /^tml-[\w-]{16,}$/.test(secret) &&
    typeof strict === "boolean" &&
    typeof studio === "boolean" &&
    Array.isArray(models) &&
    models.every((model) => typeof model?.name === "string" && typeof model.source === "string")
  );
}
