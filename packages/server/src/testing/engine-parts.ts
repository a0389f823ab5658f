/** What engines without a model have in common: their adapters and snapshots by id, what they say of themselves, and an empty tokenizer. */
import { type AdapterState, type Engine, EngineError, InputError, type ModelInfo } from "@tinklet/engine";

/** Elements of one side of a LoRA matrix. */
export const width = 8;
export const nameA = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
export const nameB = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";

/** Adapters and snapshots by id. */
export class AdapterTable<A> {
  readonly #adapters = new Map<string, A>();
  readonly #snapshots = new Map<string, A>();
  #next = 0;

  /** Adapters, without snapshots. */
  get count(): number {
    return this.#adapters.size;
  }

  /** Adapters and snapshots. */
  get held(): number {
    return this.#adapters.size + this.#snapshots.size;
  }

  /** @throws InputError where there is no such adapter */
  live(id: string): A {
    const found = this.#adapters.get(id);
    if (found === undefined) throw new InputError("adapter", `no adapter ${id}`);
    return found;
  }

  /** A snapshot or an adapter. */
  any(id: string): A {
    return this.#snapshots.get(id) ?? this.live(id);
  }

  /** @returns the new adapter's id */
  add(adapter: A): string {
    const id = `adapter-${++this.#next}`;
    this.#adapters.set(id, adapter);
    return id;
  }

  replace(id: string, adapter: A): void {
    this.live(id);
    this.#adapters.set(id, adapter);
  }

  delete(id: string): void {
    this.#adapters.delete(id);
  }

  /** @returns the new snapshot's id */
  addSnapshot(adapter: A): string {
    const id = `snapshot-${++this.#next}`;
    this.#snapshots.set(id, adapter);
    return id;
  }

  deleteSnapshot(id: string): void {
    this.#snapshots.delete(id);
  }
}

/** LoRA settings with the engine's defaults. */
export const filledLora = (lora: Parameters<Engine["createAdapter"]>[0]): AdapterState["lora"] => ({
  alpha: 32,
  seed: 1,
  trainAttn: true,
  trainMlp: true,
  trainUnembed: true,
  ...lora,
});

/** The parts of an engine that need no weights. */
export function engineWithoutModel(model: Pick<ModelInfo, "origin" | "vocabSize" | "contextLength">) {
  const { origin, vocabSize } = model;
  const unsupported = () => Promise.reject(new EngineError(origin, `the ${origin} engine has no files`));
  return {
    info: {
      ...model,
      architecture: "llama",
      runtime: "interpreter",
      hiddenSize: width,
      layers: 1,
      parameters: 0,
      tiedEmbeddings: false,
      eosTokenIds: [0],
      config: {
        model_type: "llama",
        vocab_size: vocabSize,
        hidden_size: width,
        num_hidden_layers: 1,
        num_attention_heads: 1,
        intermediate_size: width,
      },
    },
    tokenizer: {
      encode: async (text) => Array.from(text, (c) => c.charCodeAt(0) % vocabSize),
      decode: async (ids) => String.fromCharCode(...ids),
      applyChatTemplate: async () => [],
    },
    savePeft: unsupported,
    readPeft: unsupported,
    saveMerged: unsupported,
  } satisfies Partial<Engine>;
}
