/**
 * JSON in the official tool's format, so that scripts work with both: wire names in the official order, null for absent fields, times
 * as Python's `str()` writes them.
 */

import { type Checkpoint, type TrainingRun, wireOf } from "@tinklet/wire";

type Json = Record<string, unknown>;

export function checkpointJson(checkpoint: Checkpoint): Json {
  return ordered(checkpoint, {
    checkpoint_id: null,
    checkpoint_type: null,
    time: pythonTime,
    tinker_path: null,
    size_bytes: null,
    public: (value) => value ?? false,
    expires_at: pythonTime,
  });
}

export function trainingRunJson(run: TrainingRun): Json {
  const nested = (checkpoint: Checkpoint | undefined) => () =>
    checkpoint === undefined ? null : checkpointJson(checkpoint);
  return ordered(run, {
    training_run_id: null,
    base_model: null,
    model_owner: null,
    is_lora: null,
    corrupted: (value) => value ?? false,
    lora_rank: null,
    last_request_time: pythonTime,
    last_checkpoint: nested(run.lastCheckpoint),
    last_sampler_checkpoint: nested(run.lastSamplerCheckpoint),
    user_metadata: null,
  });
}

/** Known fields in order, then all other fields that the server sent. */
export function ordered(value: object, fields: Readonly<Record<string, null | ((raw: unknown) => unknown)>>): Json {
  const wire = wireOf(value) ?? {};
  const json: Json = {};
  for (const [name, convert] of Object.entries(fields)) {
    json[name] = convert === null ? (wire[name] ?? null) : convert(wire[name]);
  }
  for (const [name, raw] of Object.entries(wire)) if (!Object.hasOwn(fields, name)) json[name] = raw;
  return json;
}

/** `2026-11-15T09:10:11.5Z` as `2026-11-15 09:10:11.500000+00:00`. */
export function pythonTime(raw: unknown): unknown {
  if (raw === undefined || raw === null) return null;
  const parts = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?$/.exec(String(raw));
  if (parts === null) return raw;
  const [, day, time, digits = "", zone = ""] = parts;
  const micros = digits.padEnd(6, "0").slice(0, 6);
  const offset = zone === "Z" ? "+00:00" : zone.replace(/^([+-]\d\d)(\d\d)$/, "$1:$2");
  return `${day} ${time}${Number(micros) === 0 ? "" : `.${micros}`}${offset}`;
}
