/** The memory budget of adapters and snapshots: allocations beyond it are rejected, and deletion frees memory. */
import { beforeEach, describe, expect, it } from "vitest";
import { InputError, MemoryError } from "../errors.ts";
import { tinyConfig } from "../testing/tiny-model.ts";
import { optimStep } from "../train/optimizer.ts";
import { AdapterStore } from "./adapter-store.ts";
import { exportState } from "./state.ts";

const config = tinyConfig();
const lora = { rank: 4, seed: 1 };
const { parameters } = new AdapterStore(config, Number.POSITIVE_INFINITY).create(lora);
const [live, frozen] = [16 * parameters, 4 * parameters];

describe("with room for two adapters and a snapshot", () => {
  let store: AdapterStore;
  beforeEach(() => {
    store = new AdapterStore(config, 2 * live + frozen);
  });

  it("refuses a third adapter and says what is missing; deleting one makes room", () => {
    const { adapterId } = store.create(lora);
    store.create(lora);
    let error: unknown;
    try {
      store.create(lora);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(MemoryError);
    expect(error).toMatchObject({ neededBytes: live, budgetBytes: 2 * live + frozen, hint: /rank.*delete.*budget/ });
    store.delete(adapterId);
    store.create(lora);
  });

  it("refuses a rank that no memory holds without trying", () => {
    expect(() => store.create({ rank: 1e12 })).toThrow(MemoryError);
    const state = exportState(store.adapter(store.create(lora).adapterId));
    expect(() => store.import({ ...state, lora: { ...state.lora, rank: 1e12 } })).toThrow(MemoryError);
    expect(() => store.importSnapshot({ ...state, lora: { ...state.lora, rank: 1e12 } })).toThrow(MemoryError);
  });

  it("counts snapshots of the same weights once, and from the start what the next step will copy", () => {
    const { adapterId } = store.create(lora);
    store.create(lora);
    store.snapshot(adapterId);
    const again = store.snapshot(adapterId);
    optimStep(store.adapter(adapterId), {});
    expect(() => store.snapshot(adapterId)).toThrow(MemoryError);
    expect(store.weights(again)!.values).not.toBe(store.adapter(adapterId).values);
  });

  it("needs no further room for what a step, or loading a state into an adapter, puts in the place of the old", () => {
    const { adapterId } = store.create(lora);
    store.create(lora);
    store.snapshot(adapterId);
    optimStep(store.adapter(adapterId), {});
    expect(store.bytes).toBeLessThanOrEqual(2 * live + frozen);
    const state = exportState(store.adapter(adapterId), { optimizer: true });
    expect(store.load(adapterId, state).step).toBe(1);
    expect(() => store.import(state)).toThrow(MemoryError);
    expect(() => store.importSnapshot(state)).toThrow(MemoryError);
  });
});

it("names a seed that is no integer", () => {
  const store = new AdapterStore(config, Number.POSITIVE_INFINITY);
  for (const seed of [Number.NaN, 1.5, "7" as unknown as number]) {
    expect(() => store.create({ ...lora, seed })).toThrow(new InputError("lora.seed", `${seed} is not an integer`));
  }
});
