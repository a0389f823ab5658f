/**
 * The model of the stub server: results are functions of the request alone, so that tests can predict them, and requests are applied
 * in the order of their sequence numbers and recorded.
 */

import {
  type Datum,
  type ForwardBackwardInput,
  ForwardBackwardOutput,
  SampledSequence,
  type SampleRequest,
  SampleResponse,
  TensorData,
} from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";

/** The stub's log-prob of a token. */
export const stubLogprob = (token: number): number => Math.fround(-0.125 * ((token % 8) + 1));

/** Outputs of a pass: the log-prob of each target, and their weighted sum as loss. */
export function stubPass({ data }: ForwardBackwardInput): ForwardBackwardOutput {
  let loss = 0;
  const lossFnOutputs = data.map((datum: Datum) => {
    const targets = datum.lossFnInputs["target_tokens"]?.toDense();
    const weights = datum.lossFnInputs["weights"]?.toDense().values;
    const logprobs = Float32Array.from(targets?.values as ArrayLike<bigint>, (token: bigint) =>
      stubLogprob(Number(token)),
    );
    for (const [i, logprob] of logprobs.entries()) loss -= logprob * (weights === undefined ? 1 : Number(weights[i]));
    const shape = targets?.shape ?? [logprobs.length];
    return { logprobs: TensorData.ofParts({ dtype: "float32", values: logprobs, shape }) };
  });
  return new ForwardBackwardOutput({
    lossFnOutputType: "ArrayRecord",
    lossFnOutputs,
    metrics: { "loss:sum": loss, "tokens:sum": data.reduce((sum, datum) => sum + datum.modelInput.length, 0) },
  });
}

/** Continuations that repeat the prompt's last token plus one, two, three … */
export function stubSample(request: SampleRequest): SampleResponse {
  const prompt = request.prompt.toInts();
  const last = prompt.at(-1) ?? 0;
  const length = Math.min(request.samplingParams.maxTokens ?? 16, 64);
  const tokens = Int32Array.from({ length }, (_, i) => last + i + 1);
  const sequences = Array.from(
    { length: request.numSamples },
    () => new SampledSequence({ stopReason: "length", tokens, logprobs: Float32Array.from(tokens, stubLogprob) }),
  );
  const promptLogprobs =
    request.promptLogprobs === true
      ? Float32Array.from(prompt, (token, i) => (i === 0 ? Number.NaN : stubLogprob(token)))
      : undefined;
  const k = request.topkPromptLogprobs;
  const topkPromptLogprobs =
    k === 0
      ? undefined
      : {
          k,
          length: prompt.length,
          tokenIds: Int32Array.from({ length: prompt.length * k }, (_, i) => i % k),
          logprobs: Float32Array.from({ length: prompt.length * k }, (_, i) => -(i % k) - 1),
        };
  return new SampleResponse({ sequences, promptLogprobs, topkPromptLogprobs });
}

/** A request that was applied to a model. */
export interface Applied {
  readonly seqId: number;
  /** The type of the request's future. */
  readonly kind: string;
  readonly forwardOnly: boolean;
  /** The decoded request. */
  readonly body: unknown;
}

/** A missing sequence number is skipped after this time. */
const gapMs = 330_000;

/** Applies the requests of one model in the order of their sequence numbers. */
export class OrderedModel {
  /** Applied requests, in order. */
  readonly applied: Applied[] = [];
  /** Sequence numbers that never arrived. */
  readonly skipped: number[] = [];
  readonly #clock: Clock;
  readonly #waiting = new Map<number, { applied: Omit<Applied, "seqId"> | undefined; run: () => void }>();
  #next = 1;
  #cancelGap: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The next sequence number to apply. */
  get next(): number {
    return this.#next;
  }

  submit(seqId: number, applied: Omit<Applied, "seqId"> | undefined, run: () => void): void {
    this.#waiting.set(seqId, { applied, run });
    this.#advance();
  }

  /** Marks a refused sequence number: later ones do not wait for it. */
  refuse(seqId: number): void {
    if (seqId >= this.#next && !this.#waiting.has(seqId)) this.submit(seqId, undefined, () => {});
  }

  #advance(): void {
    for (let item = this.#waiting.get(this.#next); item !== undefined; item = this.#waiting.get(this.#next)) {
      this.#waiting.delete(this.#next);
      if (item.applied !== undefined) this.applied.push({ seqId: this.#next, ...item.applied });
      this.#next++;
      item.run();
    }
    this.#cancelGap?.();
    this.#cancelGap = this.#waiting.size === 0 ? undefined : this.#clock.timer(gapMs, () => this.#skip());
  }

  #skip(): void {
    if (!this.#waiting.has(this.#next)) this.skipped.push(this.#next++);
    this.#advance();
  }
}
