/** A sampler for tests whose answers are a function of the prompt's text; counts requests. */
import {
  type ModelInput,
  SampledSequence,
  SampleResponse,
  type SamplingParamsInput,
  type Tokenizer,
} from "@tinklet/sdk";
import type { Sampler } from "../clients.ts";

export class ScriptedSampler implements Sampler {
  readonly prompts: string[] = [];
  /** Requests under way, and the most there ever were. */
  open = 0;
  mostOpen = 0;
  readonly #tokenizer: Tokenizer;
  readonly #answer: (prompt: string, index: number, seed: number) => string | Promise<string>;

  constructor(tokenizer: Tokenizer, answer: (prompt: string, index: number, seed: number) => string | Promise<string>) {
    this.#tokenizer = tokenizer;
    this.#answer = answer;
  }

  async sample(
    prompt: ModelInput,
    options: {
      readonly numSamples?: number;
      readonly samplingParams?: SamplingParamsInput;
      readonly signal?: AbortSignal;
    },
  ): Promise<SampleResponse> {
    options.signal?.throwIfAborted();
    const text = this.#tokenizer.decode(prompt.toInts());
    this.prompts.push(text);
    this.open += 1;
    this.mostOpen = Math.max(this.open, this.mostOpen);
    try {
      const seed = Number(options.samplingParams?.seed ?? 0);
      const texts = Array.from({ length: options.numSamples ?? 1 }, async (_, i) => this.#answer(text, i, seed));
      const sequences = (await Promise.all(texts)).map((answer) => {
        const tokens = this.#tokenizer.encode(answer, { addSpecialTokens: false });
        return new SampledSequence({ stopReason: "stop", tokens, logprobs: tokens.map((_, i) => -i - 1) });
      });
      return new SampleResponse({ sequences });
    } finally {
      this.open -= 1;
    }
  }
}
