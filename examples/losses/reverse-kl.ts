/**
 * Reverse KL for distillation: KL(student ‖ teacher) per position, over the K candidate tokens that `target_tokens`
 * lists in each row ([T, K]). Reverse KL makes the student commit to what the teacher allows, rather than spread over
 * all that the teacher might say.
 */
import { autodiff, type CustomLossFn, type TensorData } from "tinklet";

export interface ReverseKlOptions {
  /** Per datum, the teacher's log-probs of the same candidates, [T, K]. */
  readonly teacher: readonly (TensorData | autodiff.NumberRows)[];
  /** Per datum, 1 for each position that counts, [T]. @defaultValue all of them */
  readonly positions?: readonly (readonly number[])[];
}

export const reverseKl =
  ({ teacher, positions }: ReverseKlOptions): CustomLossFn =>
  (_data, logprobs) => {
    const perDatum = logprobs.map((lp, i) => {
      // Candidates are a part of the vocabulary, so both sides are renormalised over them.
      const student = normalized(lp);
      const divergence = student
        .exp()
        .mul(student.sub(normalized(autodiff.constant(teacher[i]!))))
        .sum(-1); // [T]
      return positions === undefined ? divergence.mean() : divergence.maskedMean(positions[i]!);
    });
    const loss = autodiff.stack(perDatum).mean();
    return { loss, metrics: { "distill/reverse_kl": loss.item() } };
  };

const normalized = (rows: autodiff.Var) => rows.sub(rows.logSumExp(-1).reshape([rows.shape[0]!, 1]));
