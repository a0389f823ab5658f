/** `target_prompt_logprobs`: converts the request's tensor of token ids to the engine's list of cells, and the log-probs back to a tensor. */
import type { PromptTargets } from "@tinklet/engine";
import { InputError } from "@tinklet/engine/errors";
import { TensorData } from "@tinklet/wire";

export interface TargetCells {
  readonly targets: PromptTargets;
  /** Log-probs in the shape and layout of the request's tensor; 0 where the cell was −1. */
  readonly layOut: (logprobs: Float32Array) => TensorData;
}

const field = "target_prompt_logprobs";

/**
 * Reads the tensor. Cells of −1 are skipped.
 *
 * @param maxWidth - maximum number of cells, divided by the prompt length.
 * @throws InputError when the tensor does not match the prompt.
 */
export function targetCells(tensor: TensorData, promptLength: number, maxWidth: number): TargetCells {
  const { shape, values, sparseCrowIndices: crow, sparseColIndices } = tensor;
  if (tensor.dtype !== "int64") throw new InputError(field, `must have dtype int64 (token ids), got ${tensor.dtype}`);
  if (shape?.length !== 2 || shape[0] !== promptLength - 1) {
    const actual = shape === undefined ? "no shape" : `the shape [${shape.join(", ")}]`;
    const problem = `must have two dimensions with ${promptLength - 1} rows for a prompt of ${promptLength} tokens, got ${actual}`;
    throw new InputError(field, problem);
  }
  if (values.length > promptLength * maxWidth) {
    const limit = `${promptLength * maxWidth} cells (${maxWidth} per prompt token)`;
    throw new InputError(field, `must have at most ${limit}, got ${values.length}`);
  }
  const rowOf = crow === undefined ? (cell: number) => Math.floor(cell / shape[1]!) : rowFinder(crow);
  const cells: number[] = [];
  values.forEach((token, cell) => {
    if (token < -1 || token > 0x7fffffff) throw new InputError(field, `${token} is not a token id`);
    if (Number(token) !== -1) cells.push(cell);
  });
  if (cells.length === 0) throw new InputError(field, "must contain at least one token id other than -1");
  return {
    targets: {
      positions: Int32Array.from(cells, (cell) => rowOf(cell) + 1),
      tokens: Int32Array.from(cells, (cell) => Number(values[cell])),
    },
    layOut: (logprobs) => {
      const all = new Float32Array(values.length);
      cells.forEach((cell, i) => {
        all[cell] = logprobs[i]!;
      });
      return TensorData.ofParts({ dtype: "float32", values: all, shape, sparseCrowIndices: crow, sparseColIndices });
    },
  };
}

/** The row of a stored value of a CSR tensor. Must be called with increasing cells. */
function rowFinder(crow: BigInt64Array): (cell: number) => number {
  let row = 0;
  return (cell) => {
    while (row + 2 < crow.length && Number(crow[row + 1]) <= cell) row++;
    return row;
  };
}
