/** The rules for the parameters of a sample. */
import type { SampleRequest } from "@tinklet/wire";

export interface SampleBounds {
  readonly numSamples: number;
  readonly topkPromptLogprobs: number;
}

/** The first rule that a decoded sample breaks; undefined if it breaks none. */
export function sampleProblem(body: SampleRequest, limits: SampleBounds): string | undefined {
  const { numSamples, topkPromptLogprobs: topk, promptLogprobsLastN: lastN } = body;
  const length = body.prompt.tokenCount;
  const { maxTokens, temperature, topP, topK } = body.samplingParams;
  const between = (value: number, low: number, high: number) => value >= low && value <= high; // false for NaN
  const rules: readonly (readonly [holds: boolean, otherwise: string])[] = [
    [between(numSamples, 1, limits.numSamples), `num_samples: ${numSamples} is not between 1 and ${limits.numSamples}`],
    [maxTokens === undefined || maxTokens >= 1, `sampling_params.max_tokens: ${maxTokens} is not positive`],
    [between(temperature, 0, 1000), `sampling_params.temperature: ${temperature} is not between 0 and 1000`],
    [topP > 0 && topP <= 1, `sampling_params.top_p: ${topP} is not in (0, 1]`],
    [topK >= -1, `sampling_params.top_k: ${topK} is below -1, which means no limit`],
    [
      between(topk, 0, limits.topkPromptLogprobs),
      `topk_prompt_logprobs: ${topk} is not between 0 and ${limits.topkPromptLogprobs}`,
    ],
    ...(["topkSampleLogprobs", "promptAltTokensK"] as const).map((name): readonly [boolean, string] => {
      const wire = name === "topkSampleLogprobs" ? "topk_sample_logprobs" : "prompt_alt_tokens_k";
      const count = body[name] ?? 0;
      return [
        between(count, 0, limits.topkPromptLogprobs),
        `${wire}: ${count} is not between 0 and ${limits.topkPromptLogprobs}`,
      ];
    }),
    [lastN === undefined || body.promptLogprobs === true, "prompt_logprobs_last_n: needs prompt_logprobs"],
    [
      lastN === undefined || between(lastN, 1, length - 1),
      `prompt_logprobs_last_n: ${lastN} is not between 1 and ${length - 1}`,
    ],
    [length > 0, "prompt: is empty"],
  ];
  return rules.find(([holds]) => !holds)?.[1];
}
