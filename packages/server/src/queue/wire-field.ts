/** Translates field names in engine errors to the names on the wire. */
import type { InputError } from "@tinklet/engine";

const wireNames: Readonly<Record<string, string>> = {
  lora: "lora_config",
  lossFn: "loss_fn",
  lossFnConfig: "loss_fn_config",
  lossFnInputs: "loss_fn_inputs",
  numSamples: "num_samples",
  params: "sampling_params",
  promptAltTokensK: "prompt_alt_tokens_k",
  promptLogprobs: "prompt_logprobs",
  promptLogprobsLastN: "prompt_logprobs_last_n",
  targetPromptLogprobs: "target_prompt_logprobs",
  tokens: "model_input",
  topkPromptLogprobs: "topk_prompt_logprobs",
  topkSampleLogprobs: "topk_sample_logprobs",
};

/** The message of an engine error with the wire name of its field: `params.maxTokens` becomes `sampling_params.max_tokens`. */
export function wireMessage({ field, message }: InputError): string {
  return `${wireField(field)}${message.slice(field.length)}`;
}

/** Wire names, and the keys of loss inputs and loss configurations, are returned unchanged. */
export function wireField(field: string): string {
  const constraint = "params.constraint";
  if (field.startsWith(constraint)) return `tinklet_constraint${field.slice(constraint.length)}`; // the rest are keys of the client's schema
  const [, datum = "", name = "", rest = ""] = /^(data\[\d+\]\.)?(\w+)(.*)$/s.exec(field) ?? [];
  const tail = name === "params" ? rest.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) : rest;
  return Object.hasOwn(wireNames, name) ? `${datum}${wireNames[name]}${tail}` : field;
}
