/**
 * The adapters and snapshots in memory, by id, and their memory budget. A live adapter's full size (values, gradient, moments) is reserved
 * when it is created, so that an optimizer step never fails because there is no memory. The order of calls is decided elsewhere
 * (`core.ts`).
 */

import type { ModelConfig } from "@tinklet/models/config";
import { InputError, MemoryError } from "../errors.ts";
import { drawSeed } from "../random.ts";
import type { AdapterId, AdapterInfo, AdapterState, LoraOptions, SnapshotId } from "../types.ts";
import { type Adapter, type AdapterWeights, checkLora, createAdapter, freeze } from "./adapter.ts";
import { adapterLayout, targetsOf } from "./layout.ts";
import { importState } from "./state.ts";

/** Bytes per parameter. A live adapter counts values, gradient and two moments from the start, even before they are allocated. */
const liveBytes = 16;
const snapshotBytes = 4;

export class AdapterStore {
  readonly #config: ModelConfig;
  readonly #budgetBytes: number;
  readonly #adapters = new Map<AdapterId, Adapter>();
  readonly #snapshots = new Map<SnapshotId, AdapterWeights>();
  #nextId = 1;

  constructor(config: ModelConfig, budgetBytes: number) {
    this.#config = config;
    this.#budgetBytes = budgetBytes;
  }

  /** Allocated bytes, at most the reserved ones. */
  get bytes(): number {
    const arrays = new Set<Float32Array>();
    for (const { values } of this.#snapshots.values()) arrays.add(values);
    for (const { values, gradient, m, v } of this.#adapters.values()) {
      for (const array of [values, gradient, m, v]) if (array) arrays.add(array);
    }
    let bytes = 0;
    for (const array of arrays) bytes += array.byteLength;
    return bytes;
  }

  adapter(id: AdapterId): Adapter {
    const adapter = this.#adapters.get(id);
    if (!adapter) throw new InputError("adapter", `there is no adapter ${JSON.stringify(id)}`, { code: "no_adapter" });
    return adapter;
  }

  /** Looks up a snapshot, or the live adapter itself. */
  either(id: AdapterId | SnapshotId): AdapterWeights | Adapter {
    return this.#snapshots.get(id) ?? this.adapter(id);
  }

  /** Immutable weights: of an adapter as they are now, or of a snapshot; undefined for the base model. */
  weights(id: AdapterId | SnapshotId | null | undefined): AdapterWeights | undefined {
    if (id === null || id === undefined) return undefined;
    return this.#snapshots.get(id) ?? freeze(this.adapter(id));
  }

  /** Whether an adapter or a snapshot still has these weights. */
  isHeld(weights: AdapterWeights): boolean {
    for (const snapshot of this.#snapshots.values()) if (snapshot === weights) return true;
    for (const { frozen } of this.#adapters.values()) if (frozen === weights) return true;
    return false;
  }

  /** All live adapters. */
  get live(): Iterable<Adapter> {
    return this.#adapters.values();
  }

  /** All snapshots. */
  get snapshots(): Iterable<AdapterWeights> {
    return this.#snapshots.values();
  }

  describe(adapterId: AdapterId): AdapterInfo {
    const { lora, layout, step } = this.adapter(adapterId);
    return { adapterId, lora, parameters: layout.size, step };
  }

  create(options: LoraOptions): AdapterInfo {
    const lora = checkLora(options, drawSeed);
    if (!Number.isSafeInteger(lora.seed)) throw new InputError("lora.seed", `${lora.seed} is not an integer`);
    this.#checkRoom(`an adapter of rank ${lora.rank}`, liveBytes * this.#size(lora));
    return this.#add(createAdapter(this.#config, lora));
  }

  import(state: AdapterState): AdapterInfo {
    return this.#add(this.#read(state, liveBytes));
  }

  /** Replaces an adapter. If the state does not fit, the adapter is unchanged. */
  load(adapterId: AdapterId, state: AdapterState): AdapterInfo {
    const { layout } = this.adapter(adapterId);
    this.#adapters.set(adapterId, this.#read(state, liveBytes, liveBytes * layout.size));
    return this.describe(adapterId);
  }

  delete(adapterId: AdapterId): void {
    this.adapter(adapterId);
    this.#adapters.delete(adapterId);
  }

  snapshot(adapterId: AdapterId): SnapshotId {
    const adapter = this.adapter(adapterId);
    const isKept = adapter.frozen !== undefined && [...this.#snapshots.values()].includes(adapter.frozen);
    // Copy on write: the values are copied when the adapter next changes.
    if (!isKept) this.#checkRoom("a snapshot", snapshotBytes * adapter.layout.size);
    return this.#keep(freeze(adapter));
  }

  importSnapshot(state: AdapterState): SnapshotId {
    return this.#keep(freeze(this.#read(state, snapshotBytes)));
  }

  deleteSnapshot(snapshotId: SnapshotId): void {
    if (!this.#snapshots.delete(snapshotId)) {
      throw new InputError("snapshot", `there is no snapshot ${JSON.stringify(snapshotId)}`, { code: "no_snapshot" });
    }
  }

  clear(): void {
    this.#adapters.clear();
    this.#snapshots.clear();
  }

  #add(adapter: Adapter): AdapterInfo {
    const adapterId = `adapter-${this.#nextId++}`;
    this.#adapters.set(adapterId, adapter);
    return this.describe(adapterId);
  }

  #keep(weights: AdapterWeights): SnapshotId {
    const id = `snapshot-${this.#nextId++}`;
    this.#snapshots.set(id, weights);
    return id;
  }

  /** Number of parameters of an adapter with these options. */
  #size(lora: Required<LoraOptions>): number {
    return adapterLayout(this.#config, targetsOf(lora), lora.rank).size;
  }

  /** Creates the adapter of a state if it fits. `returnedBytes` become free in exchange. */
  #read(state: AdapterState, bytesPerParameter: number, returnedBytes = 0): Adapter {
    const lora = checkLora(state.lora, () => 0);
    this.#checkRoom(`an adapter of rank ${lora.rank}`, bytesPerParameter * this.#size(lora), returnedBytes);
    return importState(this.#config, state);
  }

  /**
   * Reserved bytes. Snapshots that share weights count once. Weights that a running sample still uses after its adapter changed are not
   * counted.
   */
  #promisedBytes(): number {
    let bytes = 0;
    for (const { layout } of this.#adapters.values()) bytes += liveBytes * layout.size;
    for (const { layout } of new Set(this.#snapshots.values())) bytes += snapshotBytes * layout.size;
    return bytes;
  }

  /** @throws MemoryError */
  #checkRoom(what: string, neededBytes: number, returnedBytes = 0): void {
    const freeBytes = this.#budgetBytes - this.#promisedBytes() + returnedBytes;
    if (neededBytes <= freeBytes) return;
    const megabytes = (bytes: number): number => Math.ceil(Math.max(0, bytes) / 1e6);
    throw new MemoryError(
      `${what} needs ${megabytes(neededBytes)} MB; adapters and snapshots have ${megabytes(this.#budgetBytes)} MB, ` +
        `of which ${megabytes(freeBytes)} MB are free`,
      {
        neededBytes,
        budgetBytes: this.#budgetBytes,
        hint: "lower the rank, delete adapters or snapshots, or raise the memory budget",
      },
    );
  }
}
