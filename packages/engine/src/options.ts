/** Validation before anything reaches a model: engine options, and unknown fields of sample requests. */
import { checkFormatSize } from "./constrain/format-size.ts";
import { InputError } from "./errors.ts";
import type { EngineOptions, SampleRequest, SamplingParams } from "./types.ts";

const runtimes: readonly unknown[] = ["auto", "native", "wasm", "interpreter"] satisfies EngineOptions["runtime"][];

const devices: readonly unknown[] = ["auto", "cpu", "cuda", "webgpu"] satisfies EngineOptions["device"][];

const precisions: readonly unknown[] = ["float32", "tf32", "bfloat16"] satisfies EngineOptions["precision"][];

/** @throws InputError naming the option. */
export function checkOptions(options: EngineOptions): void {
  for (const name of ["threads", "contextLength", "maxBatch"] as const) {
    const value: unknown = options[name];
    if (value !== undefined && !(Number.isInteger(value) && (value as number) > 0)) {
      throw new InputError(name, `${String(value)} is not a positive integer`);
    }
  }
  const {
    memoryBudgetBytes,
    runtime,
    device,
    precision,
  }: { [Name in "memoryBudgetBytes" | "runtime" | "device" | "precision"]?: unknown } = options;
  if (memoryBudgetBytes !== undefined && !(Number.isFinite(memoryBudgetBytes) && (memoryBudgetBytes as number) > 0)) {
    throw new InputError("memoryBudgetBytes", `${String(memoryBudgetBytes)} is not a number of bytes`);
  }
  if (runtime !== undefined && !runtimes.includes(runtime)) {
    throw new InputError("runtime", `${String(runtime)} is not one of ${runtimes.join(", ")}`);
  }
  if (device !== undefined && !devices.includes(device)) {
    throw new InputError("device", `must be one of ${devices.join(", ")}, got ${String(device)}`);
  }
  if (precision !== undefined && !precisions.includes(precision)) {
    throw new InputError("precision", `must be one of ${precisions.join(", ")}, got ${String(precision)}`);
  }
  if (precision !== undefined && precision !== "float32" && (device === undefined || device === "cpu")) {
    throw new InputError("precision", `${String(precision)} needs device cuda, the CPU computes in float32`);
  }
  if ((device === "cuda" || device === "webgpu") && (runtime === "wasm" || runtime === "interpreter")) {
    throw new InputError("device", `${device} needs the native runtime, got runtime ${String(runtime)}`);
  }
}

const requestFields: Readonly<Record<keyof SampleRequest, true>> = {
  prompt: true,
  adapter: true,
  numSamples: true,
  params: true,
  promptLogprobs: true,
  topkPromptLogprobs: true,
  promptLogprobsLastN: true,
  topkSampleLogprobs: true,
  targetPromptLogprobs: true,
  promptAltTokensK: true,
  scope: true,
};
const paramFields: Readonly<Record<keyof SamplingParams, true>> = {
  maxTokens: true,
  seed: true,
  stop: true,
  temperature: true,
  topK: true,
  topP: true,
  minP: true,
  presencePenalty: true,
  frequencyPenalty: true,
  logitBias: true,
  constraint: true,
};
/** Names of a field in other parts of the API or in other SDKs. */
const aliases: Readonly<Record<string, string>> = {
  adapterId: "adapter",
  snapshotId: "adapter",
  snapshot: "adapter",
  samplingParams: "params",
  n: "numSamples",
};

function hintFor(key: string): string {
  if (key === "onToken" || key === "signal") return "give it in the second argument of sample";
  const camelCase = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const name = aliases[camelCase] ?? camelCase;
  if (Object.hasOwn(requestFields, name)) return `did you mean ${name}?`;
  if (Object.hasOwn(paramFields, name)) return `did you mean params.${name}?`;
  return `known are ${Object.keys(requestFields).join(", ")}; in params ${Object.keys(paramFields).join(", ")}`;
}

/**
 * Rejects unknown fields (a misspelt `adapter` would otherwise sample the base model) and response formats that are too large to send.
 * @throws InputError naming the field.
 */
export function checkSampleRequest(request: SampleRequest): void {
  if (typeof request !== "object" || request === null)
    throw new InputError("request", "is not an object with a prompt");
  const refuseOthers = (object: object, known: object, prefix: string): void => {
    for (const [key, value] of Object.entries(object)) {
      if (Object.hasOwn(known, key) || value === undefined) continue;
      throw new InputError(`${prefix}${key}`, "there is no such field", { code: "unknown_field", hint: hintFor(key) });
    }
  };
  refuseOthers(request, requestFields, "");
  refuseOthers(request.params ?? {}, paramFields, "params.");
  if (request.params?.constraint !== undefined) checkFormatSize(request.params.constraint);
}
