/** Converts adapters to and from named tensors, with PEFT's names, for export, import and exact resumption. */

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

/** PEFT's name, offsets and shape of each matrix. */
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

const sliceParts = (parts: readonly Part[], values: Float32Array): Record<string, Float32Array> =>
  Object.fromEntries(parts.map(({ name, from, to }) => [name, values.slice(from, to)]));

/** Copies an adapter's state. Includes the moments if `options.optimizer` is set and the adapter has any. */
export function exportState(weights: AdapterWeights | Adapter, options: { optimizer?: boolean } = {}): AdapterState {
  const parts = partsOf(weights.layout);
  const tensors: Record<string, TensorOutput> = {};
  for (const { name, from, to, shape } of parts) tensors[name] = { data: weights.values.slice(from, to), shape };
  const live = weights as Partial<Adapter>;
  return {
    lora: weights.lora,
    step: options.optimizer ? (live.step ?? 0) : 0,
    weights: tensors,
    ...(options.optimizer && live.m && live.v
      ? { optimizer: { m: sliceParts(parts, live.m), v: sliceParts(parts, live.v) } }
      : {}),
  };
}

function assembleParts(
  parts: readonly Part[],
  size: number,
  read: (part: Part) => ArrayLike<number> | undefined,
): Float32Array {
  const values = new Float32Array(size);
  for (const part of parts) {
    const data = read(part);
    if (!data)
      throw new WeightsError(`tensor ${part.name} of the adapter is missing`, {
        code: "missing_tensor",
        tensor: part.name,
      });
    if (data.length !== part.to - part.from) {
      throw new WeightsError(
        `tensor ${part.name} must have shape [${part.shape.join(", ")}], got ${data.length} values`,
        {
          code: "shape_mismatch",
          tensor: part.name,
        },
      );
    }
    for (let i = 0; i < data.length; i++) {
      if (!Number.isFinite(data[i]))
        throw new WeightsError(`tensor ${part.name} must be finite, got ${data[i]}`, { tensor: part.name });
    }
    values.set(data, part.from);
  }
  return values;
}

function checkShape(name: string, { shape }: Pick<TensorOutput, "shape">, wanted: readonly number[]): void {
  if (sameShape(shape, wanted)) return;
  throw new WeightsError(`tensor ${name} must have shape [${wanted.join(", ")}], got [${shape.join(", ")}]`, {
    code: "shape_mismatch",
    tensor: name,
    hint: "the adapter belongs to another base model or has another rank",
  });
}

/**
 * Completes the weights of a PEFT folder: modules that it omits get a newly initialised A and a zero B, which do not change the
 * output.
 */
function withAbsentModules(
  weights: AdapterState["weights"],
  parts: readonly Part[],
  createFresh: () => AdapterWeights,
): AdapterState["weights"] {
  // A module with only one of its two matrices is not completed: the folder is damaged, and import fails with missing_tensor.
  const moduleOf = (name: string): string => name.replace(/\.lora_[AB]\.weight$/, "");
  const present = new Set(Object.keys(weights).map(moduleOf));
  const absent = parts.filter(({ name }) => !present.has(moduleOf(name)));
  if (absent.length === 0) return weights;
  const { values } = createFresh();
  const fresh = absent.map(({ name, from, to, shape }) => [name, { data: values.subarray(from, to), shape }] as const);
  return { ...weights, ...Object.fromEntries(fresh) };
}

/**
 * Creates an adapter from a state. States from `readPeft` are completed with the modules that they omit.
 * @throws WeightsError with the name of a tensor that is missing, unknown, of the wrong shape or not finite.
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
  const values = assembleParts(parts, layout.size, ({ name, shape }) => {
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
    m: assembleParts(parts, layout.size, ({ name }) => optimizer.m[name]),
    v: assembleParts(parts, layout.size, ({ name }) => optimizer.v[name]),
  };
}
