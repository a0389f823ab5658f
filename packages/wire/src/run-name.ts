/**
 * `@tinklet/wire/run-name`: names of runs and references to their checkpoints, for clients and servers (docs/decisions/0023-names.md). A
 * reference is `NAME` or `NAME@CHECKPOINT`.
 */
import { describe } from "./describe.ts";
import { InvalidInputError } from "./errors.ts";

/** Metadata keys of a new model: its name, and the checkpoint of the interrupted run that it resumes. */
export const nameKey = "name";
export const resumedFromKey = "resumed_from";

const maxLength = 64;
/** Room for the suffix that makes a derived name unique. */
const maxDerivedLength = 48;
/** Characters of a text that a name is derived from. */
const maxSourceLength = 1000;
const pattern = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const fileEnding =
  /\.(bin|csv|gguf|gz|html|js|json|jsonl|md|mjs|onnx|parquet|py|safetensors|tar|ts|txt|yaml|yml|zip)$/i;

/** The rule for names, for messages. */
export const runNameRule = `A name has 1 to ${maxLength} of the characters A-Z a-z 0-9 . _ -, and begins with a letter or digit.`;

/** Why a value is not a valid name; `undefined` if it is valid. */
export function runNameProblem(name: unknown): string | undefined {
  if (typeof name !== "string") return `must be a string, got ${describe(name)}`;
  if (name.length > maxLength) return `must have at most ${maxLength} characters, got ${name.length}`;
  if (name.startsWith("tinker://")) return `looks like the address of a checkpoint: ${describe(name)}`;
  if (/[/\\]/.test(name)) return `looks like a path or a base model: ${describe(name)}`;
  if (!pattern.test(name)) return `is not a valid name: ${describe(name)}`;
  if (fileEnding.test(name)) return `looks like a file: ${describe(name)}`;
  return undefined;
}

/** @throws {@link InvalidInputError} with the rule and a similar valid name. */
export function checkRunName(field: string, name: unknown): string {
  const problem = runNameProblem(name);
  if (problem === undefined) return name as string;
  const similar = typeof name === "string" ? runNameFrom(name) : undefined;
  throw new InvalidInputError(field, problem, {
    hint: similar === undefined ? runNameRule : `${runNameRule} Use ${JSON.stringify(similar)}, for example.`,
  });
}

/** A valid name derived from a text, for example a file name; a valid name is returned unchanged. `undefined` if nothing of the text is left. */
export function runNameFrom(text: string): string | undefined {
  if (runNameProblem(text) === undefined) return text;
  const name = text
    .slice(0, maxSourceLength)
    .replace(fileEnding, "")
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "")
    .slice(0, maxDerivedLength)
    .replace(fileEnding, "")
    .replace(/[._-]+$/, "");
  return name === "" || runNameProblem(name) !== undefined ? undefined : name;
}

/** The part of a name before a numeric suffix is added, short enough for it. */
export const runNameStem = (name: string): string => name.slice(0, maxDerivedLength);

/** A reference that names a run, split at `@`. The checkpoint is `undefined` without one. */
export function splitReference(reference: string): { readonly run: string; readonly checkpoint: string | undefined } {
  const at = reference.indexOf("@");
  return at < 0
    ? { run: reference, checkpoint: undefined }
    : { run: reference.slice(0, at), checkpoint: reference.slice(at + 1) };
}

const stepOf = (name: string): number | undefined => (/^(\d{6}|[1-9]\d{6,14})$/.test(name) ? Number(name) : undefined);

/** The name of a checkpoint as it is shown: `step-40` for `000040`, which the loops save. */
export function shownCheckpoint(name: string): string {
  const step = stepOf(name);
  return step === undefined ? name : `step-${step}`;
}

/** The stored names that the name of a checkpoint in a reference may mean, the preferred one first. */
export function checkpointNames(name: string): readonly string[] {
  const step = /^(?:step-)?(\d{1,15})$/.exec(name)?.[1];
  return step === undefined ? [name] : [...new Set([name, String(Number(step)).padStart(6, "0")])];
}

/** `bike@step-40` for the checkpoint `000040` of the run `bike`. */
export const referenceOf = (runName: string, checkpoint: string): string => `${runName}@${shownCheckpoint(checkpoint)}`;
