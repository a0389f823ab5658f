/**
 * The drill: spoiled weight files, opened as a person would. Each must end in a typed error that names the file or the tensor, or
 * in a load whose values equal the sound file's, bit for bit, wherever their stored bytes were not touched.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ModelError, TokenizerError, WeightsError } from "../../../packages/models/src/errors.ts";
import { codecs } from "../../../packages/models/src/weights/codecs.ts";
import { halfRotationRow } from "../../../packages/models/src/weights/gguf-names.ts";
import { openModel } from "../../../packages/models/src/weights/open-model.ts";
import type { OpenedModel, TensorInfo } from "../../../packages/models/src/weights/types.ts";
import { createRandom } from "../../fixtures/models/random.ts";
import { writeTinyGguf, writeTinyModel, writeTinyShards } from "../../fixtures/models/tiny-models.ts";
import { ggufMutations, indexMutations, type Mutate, type Mutation, safetensorsMutations } from "./mutations.ts";

export interface DrillReport {
  cases: number;
  /** Cases refused, by error code. */
  refused: Record<string, number>;
  /** Cases that loaded with every untouched value equal. */
  loaded: number;
  /** What went wrong, in words; empty when all is well. */
  failures: string[];
}

interface Subject {
  readonly label: string;
  /** What is opened. */
  readonly source: string;
  /** What is spoiled. */
  readonly file: string;
  readonly mutations: readonly Mutate[];
}

interface ReferenceTensor {
  readonly info: TensorInfo;
  readonly values: Float32Array;
}

/** Runs `count` cases; the same seed gives the same cases. */
export async function runDrill(count: number, seed: number): Promise<DrillReport> {
  const folder = mkdtempSync(join(tmpdir(), "weights-drill-"));
  try {
    const single = writeTinyModel(join(folder, "single"));
    const sharded = writeTinyShards(join(folder, "sharded"));
    const gguf = writeTinyGguf(join(folder, "gguf"));
    const subjects: Subject[] = [
      { label: "safetensors", source: join(folder, "single"), file: single, mutations: safetensorsMutations },
      { label: "gguf", source: gguf, file: gguf, mutations: ggufMutations },
      { label: "gguf", source: gguf, file: gguf, mutations: ggufMutations },
      {
        label: "shard",
        source: join(folder, "sharded"),
        file: sharded.shards[1] as string,
        mutations: safetensorsMutations,
      },
      { label: "index", source: join(folder, "sharded"), file: sharded.index, mutations: indexMutations },
    ];
    const prepared: { subject: Subject; original: Buffer; reference: Map<string, ReferenceTensor> }[] = [];
    for (const subject of subjects) {
      const reference = await readAll(subject.source);
      prepared.push({ subject, original: readFileSync(subject.file), reference });
    }
    const report: DrillReport = { cases: 0, refused: {}, loaded: 0, failures: [] };
    const random = createRandom(seed);
    for (let i = 0; i < count; i++) {
      const { subject, original, reference } = prepared[i % prepared.length] as (typeof prepared)[number];
      const mutation = random.pick(subject.mutations)(original, random);
      writeFileSync(subject.file, mutation.bytes);
      const complaint = await judge(subject, mutation, reference, report);
      if (complaint !== undefined) report.failures.push(`case ${i}, ${subject.label}, ${mutation.what}: ${complaint}`);
      writeFileSync(subject.file, original);
      report.cases++;
    }
    return report;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What is wrong with the outcome, or undefined. */
async function judge(
  subject: Subject,
  mutation: Mutation,
  reference: ReadonlyMap<string, ReferenceTensor>,
  report: DrillReport,
): Promise<string | undefined> {
  let found: Map<string, ReferenceTensor>;
  try {
    found = await readAll(subject.source);
  } catch (error) {
    if (!(error instanceof ModelError)) return `an untyped error: ${String((error as Error)?.stack ?? error)}`;
    if (error instanceof WeightsError && !error.file && !error.tensor) return `names nothing: ${error.message}`;
    report.refused[error.code] = (report.refused[error.code] ?? 0) + 1;
    return undefined;
  }
  for (const [name, { info, values }] of reference) {
    const got = found.get(name)?.values;
    if (!got) return `tensor ${name} is gone`;
    if (got.length !== values.length) return `tensor ${name} has another size`;
    const touched = info.file === subject.file ? touchedBlocks(info, mutation.changed) : new Set<number>();
    const perBlock = codecs[info.dtype].blockValues;
    const was = new Uint32Array(values.buffer);
    const is = new Uint32Array(got.buffer);
    for (let i = 0; i < was.length; i++) {
      if (was[i] !== is[i] && !touched.has(Math.floor(storedIndex(subject, info, i) / perBlock))) {
        return `tensor ${name} differs at ${i}, whose bytes were not touched`;
      }
    }
  }
  if (found.size !== reference.size) return "there are more tensors than before";
  report.loaded++;
  return undefined;
}

function touchedBlocks(info: TensorInfo, changed: ReadonlySet<number> | undefined): Set<number> {
  const { blockBytes } = codecs[info.dtype];
  const blocks = new Set<number>();
  for (const at of changed ?? []) {
    if (at >= info.offset && at < info.offset + info.byteLength)
      blocks.add(Math.floor((at - info.offset) / blockBytes));
  }
  return blocks;
}

/** Index, in the order of the file, of the value that is read at `index`: GGUF keeps q and k rows in another order. */
function storedIndex(subject: Subject, info: TensorInfo, index: number): number {
  if (subject.label !== "gguf" || !/\.[qk]_proj\./.test(info.name)) return index;
  const columns = info.shape[1] as number;
  const headSize = 32; // of the tiny llama
  const row = Math.floor(index / columns);
  for (let stored = row - (row % headSize); ; stored++) {
    if (halfRotationRow(stored, headSize) === row) return stored * columns + (index % columns);
  }
}

async function readAll(source: string): Promise<Map<string, ReferenceTensor>> {
  const model = await openModel(source);
  try {
    const all = new Map<string, ReferenceTensor>();
    for (const [name, info] of model.weights.tensors) all.set(name, { info, values: model.weights.readFloat32(name) });
    if (source.endsWith(".gguf")) await tryTokenizer(model);
    return all;
  } finally {
    model.close();
  }
}

/** A spoiled vocabulary may be refused, by a typed error, or be used; it may not throw anything else. */
async function tryTokenizer(model: OpenedModel): Promise<void> {
  try {
    const tokenizer = await model.loadTokenizer();
    tokenizer.decode(tokenizer.encode("the 🦊 and <|im_end|>"));
    tokenizer.applyChatTemplate([{ role: "user", content: "hi" }], { tokenize: true });
  } catch (error) {
    if (!(error instanceof TokenizerError)) throw error;
  }
}
