/** Raw requests to a model with explicit model ids and seq_ids. */
import { decodeForwardBackwardOutput } from "@tinklet/wire";
import type { Context } from "./context.ts";
import { logprobsOf, passBytes } from "./data.ts";

/** The body of an `optim_step`. */
export const stepBody = (modelId: string, seqId: number, learningRate: number) => ({
  model_id: modelId,
  seq_id: seqId,
  adam_params: { learning_rate: learningRate },
  type: "optim_step",
});

/** The model's log-probs of the lesson, from a forward pass. */
export async function rawScore(context: Context, modelId: string, seqId: number): Promise<number[]> {
  const bytes = passBytes(modelId, seqId, undefined, { forwardOnly: true });
  return logprobsOf(decodeForwardBackwardOutput((await context.http.call("forward_backward", bytes)).bytes));
}
