/** Stacks the adapters of a batch for `sample/graph.ts`; a single adapter is used without a copy. */

import { loraScale, type ModelConfig } from "@tinklet/models/config";
import type { AdapterWeights } from "../adapter/adapter.ts";
import { type LoraTargets, targetLinears } from "../adapter/layout.ts";
import { f32, type Value } from "../runtime/runtime.ts";
import { uncutTerms } from "./run-rows.ts";

/**
 * The runtime splits long sums into parts of a multiple of 128 terms, depending on the width of the product and the number of threads. So
 * that the bits of a sequence do not depend on other adapters in the batch, each adapter is split as if it were alone: products with A use
 * blocks of equal width, and the columns of an adapter in B lie between two possible split points. (An adapter of rank above 128 is split
 * inside, and its last bits may differ.)
 */
export const rankBlock = 16;

/** Adapters stacked for a program. */
export interface AdapterStack {
  readonly targets: LoraTargets;
  /** Rank of the stack, gaps included. */
  readonly rank: number;
  /** Whether A matrices are in blocks of `rankBlock` rows; a single small adapter always is one block. */
  readonly blocked: boolean;
  /** First column of each adapter. */
  readonly columns: ReadonlyMap<AdapterWeights, number>;
  readonly inputs: Readonly<Record<string, Value>>;
}

const roundUp = (value: number, step: number): number => Math.ceil(value / step) * step;

/** Assigns columns to each adapter. */
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
      if (!module) return; // this adapter does not adapt the module: zeros
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

/** `lora.select`: for each row, its adapter's scale in that adapter's columns. */
export const selectionOf = (stack: AdapterStack, rows: readonly (AdapterWeights | undefined)[]): Value => {
  const select = new Float32Array(rows.length * stack.rank);
  rows.forEach((adapter, row) => {
    if (!adapter) return;
    const start = row * stack.rank + stack.columns.get(adapter)!;
    select.fill(loraScale(adapter.lora), start, start + adapter.layout.rank);
  });
  return f32(select, [rows.length, stack.rank]);
};
