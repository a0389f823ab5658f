/** `target_prompt_logprobs`: from the tensor of token ids that a request carries to the engine's list of cells, and from its log-probs back. */
import { InputError, type PromptTargets } from "@tinklet/engine";
import { TensorData } from "@tinklet/wire";

export interface TargetCells {
  readonly targets: PromptTargets;
  /** Log-probs of the cells in the shape and layout of the request; 0 where it asked for nothing. */
  readonly layOut: (logprobs: Float32Array) => TensorData;
}

const field = "target_prompt_logprobs";

/**
 * Reads the tensor. A cell of −1 asks for nothing.
 *
 * @param maxWidth - ids per prompt position, on the average, that are still computed.
 * @throws InputError when it does not fit the prompt.
 */
export function targetCells(tensor: TensorData, promptLength: number, maxWidth: number): TargetCells {
  const { shape, values, sparseCrowIndices: crow, sparseColIndices } = tensor;
  if (tensor.dtype !== "int64") throw new InputError(field, `must be token ids (int64), not ${tensor.dtype}`);
  if (shape?.length !== 2 || shape[0] !== promptLength - 1) {
    const given = shape === undefined ? "none" : `[${shape.join(", ")}]`;
    throw new InputError(
      field,
      `has the shape ${given}; a prompt of ${promptLength} tokens needs ${promptLength - 1} rows`,
    );
  }
  if (values.length > promptLength * maxWidth) {
    throw new InputError(field, `has ${values.length} cells, more than ${maxWidth} for each token of the prompt`);
  }
  const rowOf = crow === undefined ? (cell: number) => Math.floor(cell / shape[1]!) : rowFinder(crow);
  const asked: number[] = [];
  values.forEach((token, cell) => {
    if (token < -1 || token > 0x7fffffff) throw new InputError(field, `${token} is no token id`);
    if (Number(token) !== -1) asked.push(cell);
  });
  if (asked.length === 0) throw new InputError(field, "names no token");
  return {
    targets: {
      positions: Int32Array.from(asked, (cell) => rowOf(cell) + 1),
      tokens: Int32Array.from(asked, (cell) => Number(values[cell])),
    },
    layOut: (logprobs) => {
      const all = new Float32Array(values.length);
      asked.forEach((cell, i) => {
        all[cell] = logprobs[i]!;
      });
      return TensorData.ofParts({ dtype: "float32", values: all, shape, sparseCrowIndices: crow, sparseColIndices });
    },
  };
}

/** The row of a stored value of a CSR tensor; for values in rising order. */
function rowFinder(crow: BigInt64Array): (cell: number) => number {
  let row = 0;
  return (cell) => {
    while (row + 2 < crow.length && Number(crow[row + 1]) <= cell) row++;
    return row;
  };
}
