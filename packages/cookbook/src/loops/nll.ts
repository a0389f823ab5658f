/** The mean loss per weighted token: the one figure by which batches of any size and mask can be compared. */
import type { Datum, ForwardBackwardOutput } from "@tinklet/sdk";
import type { Trainer } from "../clients.ts";

/**
 * The weighted mean of the negative log-probabilities, over a whole batch. NaN without weighted tokens.
 */
export function meanNll(output: ForwardBackwardOutput, data: readonly Datum[]): number {
  let nll = 0;
  let total = 0;
  data.forEach((datum, at) => {
    const logprobs = output.lossFnOutputs[at]?.["logprobs"]?.values ?? [];
    const weights = datum.lossFnInputs["weights"]?.values ?? [];
    for (let i = 0; i < weights.length; i++) {
      const weight = Number(weights[i]);
      if (weight === 0) continue;
      nll -= weight * Number(logprobs[i]);
      total += weight;
    }
  });
  return total === 0 ? Number.NaN : nll / total;
}

/** Mean negative log-likelihood per weighted token, by a forward pass with the trainer's current weights. */
export async function evaluateNll(trainer: Pick<Trainer, "forward">, data: readonly Datum[]): Promise<number> {
  return meanNll(await trainer.forward(data, "cross_entropy"), data);
}

/** Weighted tokens of a batch: places, however many targets each has. */
export function lossTokens(data: readonly Datum[]): number {
  return data.reduce((sum, { lossFnInputs: { weights } }) => {
    return sum + (weights === undefined ? 0 : count(weights.values, weights.shape?.[1] ?? 1));
  }, 0);
}

/** Input tokens of a batch. */
export function inputTokens(data: readonly Datum[]): number {
  return data.reduce((sum, { modelInput }) => sum + modelInput.length, 0);
}

/** @param width - weights of one place */
function count(weights: ArrayLike<number | bigint>, width: number): number {
  let found = 0;
  for (let start = 0; start < weights.length; start += width) {
    let i = start;
    while (i < start + width && Number(weights[i]) === 0) i++;
    if (i < start + width) found += 1;
  }
  return found;
}
