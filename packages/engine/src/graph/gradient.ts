/**
 * Reverse-mode differentiation of a graph: walks back from the outputs in reverse order of creation, adds up what reaches each
 * tensor and applies its rule. The gradients are new nodes of the same graph, so forward and backward run as one program and what
 * the backward pass reuses never leaves the runtime.
 */
import { sameShape } from "./dims.ts";
import { type Graph, ShapeError, type Tensor } from "./graph.ts";
import { add } from "./ops.ts";

/**
 * Gradients of Σ ⟨value, seed⟩ with respect to `leaves`.
 *
 * @throws ShapeError when a seed or a rule's result does not have the shape of its tensor, or a leaf is not reached.
 */
export const gradients = (
  graph: Graph,
  seeds: readonly { readonly value: Tensor; readonly seed: Tensor }[],
  leaves: readonly Tensor[],
): Tensor[] => {
  const pending = new Map<number, { tensor: Tensor; grad: Tensor }>();
  const accumulate = (tensor: Tensor, grad: Tensor): void => {
    if (!sameShape(tensor.shape, grad.shape)) {
      throw new ShapeError("gradient", `of ${tensor.name} has the wrong shape`, [tensor.shape, grad.shape]);
    }
    const known = pending.get(tensor.id);
    pending.set(tensor.id, { tensor, grad: known ? add(graph, known.grad, grad) : grad });
  };
  for (const { value, seed } of seeds) accumulate(value, seed);

  const wanted = new Set(leaves.map((leaf) => leaf.id));
  const found = new Map<number, Tensor>();
  while (pending.size > 0) {
    const id = Math.max(...pending.keys());
    const { tensor, grad } = pending.get(id)!;
    pending.delete(id);
    if (wanted.has(id)) found.set(id, grad);
    if (!tensor.backward) continue;
    const parts = tensor.backward.rule(grad);
    tensor.backward.inputs.forEach((input, index) => {
      const part = parts[index];
      if (part && input.requiresGrad) accumulate(input, part);
    });
  }
  return leaves.map((leaf) => {
    const grad = found.get(leaf.id);
    if (!grad) throw new ShapeError("gradient", `${leaf.name} does not reach the loss`);
    return grad;
  });
};
