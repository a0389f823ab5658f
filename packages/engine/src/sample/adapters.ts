/** Puts the adapters of a batch side by side, as `sample/graph.ts` wants them; a single adapter is used where it lies. */

import type { ModelConfig } from "@tinklet/models/config";
import type { AdapterWeights } from "../adapter/adapter.ts";
import { type LoraTargets, targetLinears } from "../adapter/layout.ts";
import { f32, type Value } from "../runtime/runtime.ts";
import { uncutTerms } from "./run-rows.ts";

/**
 * The runtime cuts long sums into pieces, of 128 terms or a multiple, depending on how wide a product is and how many threads share it.
 * So that a sequence's bits do not depend on the adapters of its neighbours, each adapter is cut as if it were alone: products with A are
 * made in blocks of equal width, and an adapter's sums with B lie between two places where a cut can be. (One of a rank above 128 has cuts
 * inside, and there the last bits may differ.)
 */
export const rankBlock = 16;

/** Adapters stacked for a program. */
export interface AdapterStack {
  readonly targets: LoraTargets;
  /** Of all adapters together, with the gaps between them. */
  readonly rank: number;
  /** Whether A matrices come in blocks of `rankBlock` rows; a single small adapter is one block anyway. */
  readonly blocked: boolean;
  /** First column of each adapter. */
  readonly columns: ReadonlyMap<AdapterWeights, number>;
  readonly inputs: Readonly<Record<string, Value>>;
}

const roundUp = (value: number, step: number): number => Math.ceil(value / step) * step;

/** A place for each adapter. */
const placeOf = (adapters: readonly AdapterWeights[]): { columns: Map<AdapterWeights, number>; rank: number } => {
  const columns = new Map<AdapterWeights, number>();
  let end = 0;
  for (const adapter of adapters) {
    const width = roundUp(adapter.layout.rank, rankBlock);
    const start = (end % uncutTerms) + width <= uncutTerms ? end : roundUp(end, uncutTerms);
    columns.set(adapter, start);
    end = start + width;
  }
  return { columns, rank: end };
};

export const stackAdapters = (config: ModelConfig, adapters: readonly AdapterWeights[]): AdapterStack => {
  const any = (name: keyof LoraTargets): boolean => adapters.some(({ layout }) => layout.targets[name]);
  const targets = { attn: any("attn"), mlp: any("mlp"), unembed: any("unembed") };
  const [first] = adapters as [AdapterWeights];
  const inPlace = adapters.length === 1 && (first.layout.rank < rankBlock || first.layout.rank % rankBlock === 0);
  const { columns, rank } = inPlace ? { columns: new Map([[first, 0]]), rank: first.layout.rank } : placeOf(adapters);
  const blocked = rank > rankBlock;
  const shapeA = (inSize: number): number[] => (blocked ? [rank / rankBlock, rankBlock, inSize] : [rank, inSize]);
  const modules = adapters.map(({ layout }) => new Map(layout.modules.map((module) => [module.name, module])));
  const inputs: Record<string, Value> = {};
  for (const { name, inSize, outSize } of targetLinears(config, targets)) {
    const single = inPlace ? modules[0]!.get(name) : undefined;
    if (single) {
      const { values } = first;
      inputs[`${name}.lora_A`] = f32(values.subarray(single.offsetA, single.offsetB), shapeA(inSize));
      inputs[`${name}.lora_B`] = f32(values.subarray(single.offsetB, single.offsetB + outSize * rank), [outSize, rank]);
      continue;
    }
    const a = new Float32Array(rank * inSize);
    const b = new Float32Array(outSize * rank);
    adapters.forEach((adapter, index) => {
      const module = modules[index]!.get(name);
      if (!module) return; // this adapter leaves the module alone: zeros
      const [start, own] = [columns.get(adapter)!, adapter.layout.rank];
      a.set(adapter.values.subarray(module.offsetA, module.offsetB), start * inSize);
      for (let row = 0; row < outSize; row++) {
        for (let r = 0; r < own; r++) b[row * rank + start + r] = adapter.values[module.offsetB + row * own + r]!;
      }
    });
    inputs[`${name}.lora_A`] = f32(a, shapeA(inSize));
    inputs[`${name}.lora_B`] = f32(b, [outSize, rank]);
  }
  return { targets, rank, blocked, columns, inputs };
};

/** `lora.select`: for each row its adapter's scale in that adapter's columns. */
export const selectionOf = (stack: AdapterStack, rows: readonly (AdapterWeights | undefined)[]): Value => {
  const select = new Float32Array(rows.length * stack.rank);
  rows.forEach((adapter, row) => {
    if (!adapter) return;
    const start = row * stack.rank + stack.columns.get(adapter)!;
    select.fill(adapter.lora.alpha / adapter.lora.rank, start, start + adapter.layout.rank);
  });
  return f32(select, [rows.length, stack.rank]);
};
