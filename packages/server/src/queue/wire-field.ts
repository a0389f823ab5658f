/** The engine names the fields of its own calls; a client of the server knows them by the names on the wire. */
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

/** The message of an engine's error with the wire's name of its field: `params.maxTokens` is `sampling_params.max_tokens`. */
export function wireMessage({ field, message }: InputError): string {
  return `${wireField(field)}${message.slice(field.length)}`;
}

/** What is already a name of the wire stays as it is, and so do the keys of loss inputs and configurations: they are data. */
export function wireField(field: string): string {
  const constraint = "params.constraint";
  if (field.startsWith(constraint)) return `tinklet_constraint${field.slice(constraint.length)}`; // what follows are keys of a schema
  const [, datum = "", name = "", rest = ""] = /^(data\[\d+\]\.)?(\w+)(.*)$/s.exec(field) ?? [];
  const tail = name === "params" ? rest.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) : rest;
  return Object.hasOwn(wireNames, name) ? `${datum}${wireNames[name]}${tail}` : field;
}
