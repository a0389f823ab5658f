/** Puts the adapters of a batch side by side, as `sample/graph.ts` wants them; a single adapter is used where it lies. */
import type { AdapterWeights } from "../adapter/adapter.ts";
import { type LoraTargets, targetLinears } from "../adapter/layout.ts";
import type { ModelConfig } from "../model/config.ts";
import { f32, type Value } from "../runtime/runtime.ts";

/** Adapters stacked for a program. */
export interface AdapterStack {
  readonly targets: LoraTargets;
  /** Sum of all ranks. */
  readonly rank: number;
  /** First column of each adapter. */
  readonly columns: ReadonlyMap<AdapterWeights, number>;
  readonly inputs: Readonly<Record<string, Value>>;
}

export const stackAdapters = (config: ModelConfig, adapters: readonly AdapterWeights[]): AdapterStack => {
  const any = (name: keyof LoraTargets): boolean => adapters.some(({ layout }) => layout.targets[name]);
  const targets = { attn: any("attn"), mlp: any("mlp"), unembed: any("unembed") };
  const columns = new Map<AdapterWeights, number>();
  let rank = 0;
  for (const adapter of adapters) {
    columns.set(adapter, rank);
    rank += adapter.layout.rank;
  }
  const modules = adapters.map(({ layout }) => new Map(layout.modules.map((module) => [module.name, module])));
  const inputs: Record<string, Value> = {};
  for (const { name, inSize, outSize } of targetLinears(config, targets)) {
    const single = adapters.length === 1 ? modules[0]!.get(name) : undefined;
    const { values } = adapters[0]!;
    if (single) {
      inputs[`${name}.lora_A`] = f32(values.subarray(single.offsetA, single.offsetB), [rank, inSize]);
      inputs[`${name}.lora_B`] = f32(values.subarray(single.offsetB, single.offsetB + outSize * rank), [outSize, rank]);
      continue;
    }
    const a = new Float32Array(rank * inSize);
    const b = new Float32Array(outSize * rank);
    adapters.forEach((adapter, index) => {
      const module = modules[index]!.get(name);
      if (!module) return; // this adapter leaves the module alone: zeros
      const [first, own] = [columns.get(adapter)!, adapter.layout.rank];
      a.set(adapter.values.subarray(module.offsetA, module.offsetB), first * inSize);
      for (let row = 0; row < outSize; row++) {
        for (let r = 0; r < own; r++) b[row * rank + first + r] = adapter.values[module.offsetB + row * own + r]!;
      }
    });
    inputs[`${name}.lora_A`] = f32(a, [rank, inSize]);
    inputs[`${name}.lora_B`] = f32(b, [outSize, rank]);
  }
  return { targets, rank, columns, inputs };
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
