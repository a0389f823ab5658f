/** Adapters as named tensors: the names PEFT uses, for export, import and exact resumption. */

import type { ModelConfig } from "@tinklet/models/config";
import { WeightsError } from "../errors.ts";
import { sameShape } from "../graph/dims.ts";
import type { AdapterState, TensorOutput } from "../types.ts";
import { type Adapter, type AdapterWeights, checkLora, createAdapter } from "./adapter.ts";
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
export function exportState(weights: AdapterWeights | Adapter, options: { optimizer?: boolean } = {}): AdapterState {
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
}

function paste(
  parts: readonly Part[],
  size: number,
  read: (part: Part) => ArrayLike<number> | undefined,
): Float32Array {
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
}

function checkShape(name: string, { shape }: Pick<TensorOutput, "shape">, wanted: readonly number[]): void {
  if (sameShape(shape, wanted)) return;
  throw new WeightsError(`tensor ${name} has shape [${shape.join(", ")}] instead of [${wanted.join(", ")}]`, {
    code: "shape_mismatch",
    tensor: name,
    hint: "the adapter was made for another base model, or with another rank",
  });
}

/** The weights of a PEFT folder with those of the modules that it leaves out: a fresh A and a zero B, which add nothing. */
function withAbsentModules(
  weights: AdapterState["weights"],
  parts: readonly Part[],
  createFresh: () => AdapterWeights,
): AdapterState["weights"] {
  // Of a module that is there in half, the other half stays missing: that is no choice of what to adapt, but damage.
  const moduleOf = (name: string): string => name.replace(/\.lora_[AB]\.weight$/, "");
  const given = new Set(Object.keys(weights).map(moduleOf));
  const absent = parts.filter(({ name }) => !given.has(moduleOf(name)));
  if (absent.length === 0) return weights;
  const { values } = createFresh();
  const fresh = absent.map(({ name, from, to, shape }) => [name, { data: values.subarray(from, to), shape }] as const);
  return { ...weights, ...Object.fromEntries(fresh) };
}

/**
 * A live adapter from a state. One that `readPeft` gave is completed first.
 * @throws WeightsError naming a tensor that is missing, too many, of the wrong size or not finite.
 */
export function importState(config: ModelConfig, state: AdapterState): Adapter {
  const lora = checkLora(state.lora, () => 0);
  const layout = adapterLayout(config, targetsOf(lora), lora.rank);
  const parts = partsOf(layout);
  for (const [name, shape] of Object.entries(state.peft?.baseShapes ?? {})) {
    checkShape(name, { shape }, [config.vocabSize, config.hiddenSize]);
  }
  const weights = state.peft
    ? withAbsentModules(state.weights, parts, () => createAdapter(config, lora))
    : state.weights;
  const known = new Set(parts.map(({ name }) => name));
  const stray = Object.keys(weights).find((name) => !known.has(name));
  if (stray)
    throw new WeightsError(`tensor ${stray} does not belong to this adapter`, { code: "stray_tensor", tensor: stray });
  const values = paste(parts, layout.size, ({ name, shape }) => {
    const tensor = weights[name];
    if (tensor) checkShape(name, tensor, shape);
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
}
