/** The recorded fixtures, and from each its seeded model, adapter and batch: what record.py had in PyTorch. */
import { readdirSync, readFileSync } from "node:fs";
import type { Adapter } from "../../../packages/engine/src/adapter/adapter.ts";
import { adapterLayout, targetsOf } from "../../../packages/engine/src/adapter/layout.ts";
import { exportState, importState } from "../../../packages/engine/src/adapter/state.ts";
import type { LoadedModel } from "../../../packages/engine/src/model/load.ts";
import type { LossFnName, LossRequest, TensorInput, TensorOutput } from "../../../packages/engine/src/types.ts";
import { readConfig } from "../../../packages/models/src/config/read-config.ts";
import { weightShapes } from "../../../packages/models/src/config/tensor-shapes.ts";
import { tokens, uniform, weight } from "./seeded.ts";

export interface Fixture {
  readonly config: Record<string, unknown>;
  readonly rank: number;
  readonly alpha: number;
  readonly lengths: readonly number[];
  readonly targetModules: readonly string[];
  readonly logits: string;
  readonly sampling: readonly string[];
  readonly losses: Partial<
    Record<LossFnName, { logprobs: readonly string[]; values: readonly string[]; gradients: Record<string, string> }>
  >;
  readonly training: { loss: readonly number[]; norm: readonly number[]; parameters: Record<string, string> };
  readonly greedy: readonly number[];
  /** Of batches that share prefixes: each sequence as names and lengths of its parts. */
  readonly parts?: readonly (readonly (readonly [string, number])[])[];
}

const readFolder = <T>(name: string): [string, T][] => {
  const folder = new URL(`../../fixtures/${name}/`, import.meta.url);
  return readdirSync(folder).map((file) => [
    file.replace(".json", ""),
    JSON.parse(readFileSync(new URL(file, folder), "utf8")) as T,
  ]);
};
export const fixtures = readFolder<Fixture>("torch");
/** The same models and adapters with batches that share prefixes. */
export const trees = readFolder<Pick<Fixture, "parts" | "lengths" | "sampling" | "losses">>("torch-trees").map(
  ([name, tree]): [string, Fixture] => [name, { ...new Map(fixtures).get(name)!, ...tree }],
);

/** Values as the fixture stores them: little-endian float32 in base64. */
export const decode = (text: string): Float32Array => {
  const bytes = Buffer.from(text, "base64");
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
};

export const decodeAll = (texts: Readonly<Record<string, string>>): Record<string, Float32Array> =>
  Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, decode(text)]));

export const modelOf = ({ config }: Fixture): LoadedModel => {
  const read = readConfig(config);
  const weights = new Map(
    [...weightShapes(read)].map(([name, dims]) => [name, { data: weight(name, dims), dims }] as const),
  );
  return { config: read, weights, bytes: 0 };
};

export const adapterOf = (model: LoadedModel, fixture: Fixture): Adapter => {
  const lora = {
    rank: fixture.rank,
    alpha: fixture.alpha,
    seed: 0,
    trainAttn: true,
    trainMlp: true,
    trainUnembed: fixture.targetModules.includes("lm_head"),
  };
  const layout = adapterLayout(model.config, targetsOf(lora), lora.rank);
  // An adapter of zeros, for its names and shapes.
  const shapes = exportState({ layout, lora, values: new Float32Array(layout.size), step: 0 });
  const weights: Record<string, TensorOutput> = {};
  for (const name of Object.keys(fixture.training.parameters)) {
    const { shape } = shapes.weights[name]!;
    const values = uniform(
      name,
      shape.reduce((n, dim) => n * dim, 1),
    );
    weights[name] = { shape, data: values.map((x) => x * Math.fround(0.1)) };
  }
  return importState(model.config, { lora, step: 0, weights });
};

const sequenceOf = ({ parts, lengths }: Fixture, index: number, vocab: number): Int32Array =>
  parts
    ? Int32Array.from(parts[index]!.flatMap(([part, length]) => [...tokens(`tree.${part}`, length, vocab)]))
    : tokens(`tokens${index}`, lengths[index]!, vocab);

export const requestOf = (fixture: Fixture, lossFn: LossFnName): LossRequest => ({
  lossFn,
  data: fixture.lengths.map((length, index) => {
    const vocab = fixture.config["vocab_size"] as number;
    const mask = uniform(`mask${index}`, length);
    const weights = uniform(`weights${index}`, length).map((x, i) => (mask[i]! > -0.5 ? x + 1 : 0));
    const inputs: Record<string, TensorInput> = {
      target_tokens: { data: tokens(`targets${index}`, length, vocab) },
      weights: { data: weights },
    };
    if (lossFn !== "cross_entropy") {
      inputs["logprobs"] = { data: decode(fixture.sampling[index]!) };
      inputs["advantages"] = { data: uniform(`advantages${index}`, length) };
    }
    return { tokens: sequenceOf(fixture, index, vocab), lossFnInputs: inputs };
  }),
});

/** Values in the order of an adapter under PEFT's names. */
export const underNames = (adapter: Adapter, values: Float32Array): Record<string, Float32Array> =>
  Object.fromEntries(
    Object.entries(exportState({ ...adapter, values }).weights).map(([name, { data }]) => [name, data]),
  );
