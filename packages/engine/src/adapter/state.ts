/** Adapters as named tensors: the names PEFT uses, for export, import and exact resumption. */
import { WeightsError } from "../errors.ts";
import type { ModelConfig } from "../model/config.ts";
import type { AdapterState, TensorOutput } from "../types.ts";
import { type Adapter, type AdapterWeights, checkLora } from "./adapter.ts";
import { type AdapterLayout, adapterLayout, targetsOf } from "./layout.ts";

interface Part {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly shape: readonly number[];
}

/** PEFT's name, place and shape of every matrix. */
const partsOf = ({ modules, rank }: AdapterLayout): Part[] =>
  modules.flatMap(({ name, inSize, outSize, offsetA, offsetB }): Part[] => [
    { name: `base_model.model.${name}.lora_A.weight`, from: offsetA, to: offsetB, shape: [rank, inSize] },
    {
      name: `base_model.model.${name}.lora_B.weight`,
      from: offsetB,
      to: offsetB + outSize * rank,
      shape: [outSize, rank],
    },
  ]);

const cut = (parts: readonly Part[], values: Float32Array): Record<string, Float32Array> =>
  Object.fromEntries(parts.map(({ name, from, to }) => [name, values.slice(from, to)]));

/** A copy of an adapter's state. Moments are included on request, and when there are any. */
export const exportState = (weights: AdapterWeights | Adapter, options: { optimizer?: boolean } = {}): AdapterState => {
  const parts = partsOf(weights.layout);
  const tensors: Record<string, TensorOutput> = {};
  for (const { name, from, to, shape } of parts) tensors[name] = { data: weights.values.slice(from, to), shape };
  const live = weights as Partial<Adapter>;
  return {
    lora: weights.lora,
    step: options.optimizer ? (live.step ?? 0) : 0,
    weights: tensors,
    ...(options.optimizer && live.m && live.v ? { optimizer: { m: cut(parts, live.m), v: cut(parts, live.v) } } : {}),
  };
};

const paste = (
  parts: readonly Part[],
  size: number,
  read: (part: Part) => ArrayLike<number> | undefined,
): Float32Array => {
  const values = new Float32Array(size);
  for (const part of parts) {
    const data = read(part);
    if (!data)
      throw new WeightsError(`tensor ${part.name} is missing from the adapter`, {
        code: "missing_tensor",
        tensor: part.name,
      });
    if (data.length !== part.to - part.from) {
      throw new WeightsError(`tensor ${part.name} has ${data.length} values instead of [${part.shape.join(", ")}]`, {
        code: "shape_mismatch",
        tensor: part.name,
      });
    }
    for (let i = 0; i < data.length; i++) {
      if (!Number.isFinite(data[i]))
        throw new WeightsError(`tensor ${part.name} holds ${data[i]}`, { tensor: part.name });
    }
    values.set(data, part.from);
  }
  return values;
};

/**
 * A live adapter from a state.
 * @throws WeightsError naming a tensor that is missing, too many, of the wrong size or not finite.
 */
export const importState = (config: ModelConfig, state: AdapterState): Adapter => {
  const lora = checkLora(state.lora, () => 0);
  const layout = adapterLayout(config, targetsOf(lora), lora.rank);
  const parts = partsOf(layout);
  const known = new Set(parts.map(({ name }) => name));
  const stray = Object.keys(state.weights).find((name) => !known.has(name));
  if (stray)
    throw new WeightsError(`tensor ${stray} does not belong to this adapter`, { code: "stray_tensor", tensor: stray });
  const values = paste(parts, layout.size, ({ name, shape }) => {
    const tensor = state.weights[name];
    if (tensor && (tensor.shape.length !== shape.length || tensor.shape.some((dim, axis) => dim !== shape[axis]))) {
      throw new WeightsError(`tensor ${name} has shape [${tensor.shape.join(", ")}] instead of [${shape.join(", ")}]`, {
        code: "shape_mismatch",
        tensor: name,
      });
    }
    return tensor?.data;
  });
  const { optimizer } = state;
  if (!optimizer) return { layout, lora, values, step: 0 };
  return {
    layout,
    lora,
    values,
    step: state.step,
    m: paste(parts, layout.size, ({ name }) => optimizer.m[name]),
    v: paste(parts, layout.size, ({ name }) => optimizer.v[name]),
  };
};
