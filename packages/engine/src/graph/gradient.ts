/**
 * Reverse-mode differentiation of a graph: visits tensors in reverse order of creation, sums the incoming gradients of each and
 * applies its rule. The gradients are new nodes of the same graph, so forward and backward run as one program and saved activations
 * never leave the runtime.
 */
import { sameShape } from "./dims.ts";
import { type Graph, ShapeError, type Tensor } from "./graph.ts";
import { add } from "./ops.ts";

/**
 * Gradients of Σ ⟨value, seed⟩ with respect to `leaves`.
 *
 * @throws ShapeError if a seed or a rule's result does not have the shape of its tensor, or if the outputs do not depend on a leaf.
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
    if (!grad) throw new ShapeError("gradient", `the loss does not depend on ${leaf.name}`);
    return grad;
  });
};
