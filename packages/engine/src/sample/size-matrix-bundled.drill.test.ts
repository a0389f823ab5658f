/**
 * The size matrix on the shape of the bundled model. Float64 takes seconds per hundred tokens: in a selection, one rank is compared with
 * float64 and the others are only run.
 */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { createInterpreter } from "../runtime/interpreter.ts";
import { loadNativeRuntime, loadWasmRuntime } from "../runtime/ort.ts";
import { allCombinations, pairwise } from "../testing/combinations.ts";
import { describeSizes, timeout } from "../testing/describe-sizes.ts";
import {
  gradientCases,
  isFull,
  manyPasses,
  manySamples,
  problemsOf,
  SizeMatrix,
  sampleFactors,
  trainFactors,
} from "../testing/size-matrix.ts";
import { tinyModel } from "../testing/tiny-model.ts";

const config = JSON.parse(readFileSync(new URL("../../../base-model/config.json", import.meta.url), "utf8"));
const model = tinyModel({ ...config, eos_token_id: null });
const matrix = isFull ? new SizeMatrix(model) : new SizeMatrix(model, { ranks: [32], longest: 257 });
const native = (await loadNativeRuntime(2)).runtime;
const wasm = await loadWasmRuntime(1);
const interpreter = createInterpreter();

/** The cases that each runtime can compute within a test's time limit. */
const restricted = {
  native: { sample: {}, train: { length: [1, 256, 257, 513] } },
  wasm: {
    sample: {
      rank: [17, 32],
      length: [1, 256, 257, 513],
      scores: ["none", "tokens", "top"],
      company: ["none", "before"],
    },
    train: { rank: [17, 32], length: [1, 257], batch: ["alone", "tree"] },
  },
  interpreter: {
    sample: { rank: [16, 32], length: [1], scores: ["none", "top"] },
    train: { rank: [16, 32], length: [1], batch: ["alone", "tree"] },
  },
} as const;
/** In a full run, the interpreter (half a minute for the longest prompts) still gets a pairwise selection. */
const few = { length: [1, 257, 513, 1000] } as const;
const plans = [...(native ? [native] : []), wasm, interpreter].map((runtime) => {
  const { name } = runtime;
  if (!isFull) {
    const { sample, train } = restricted[name];
    const passes = pairwise({ ...trainFactors, ...train });
    return { name, runtime, samples: pairwise({ ...sampleFactors, ...sample }), passes };
  }
  return {
    native: { name, runtime, samples: allCombinations(sampleFactors), passes: allCombinations(trainFactors) },
    wasm: { name, runtime, samples: manySamples, passes: manyPasses },
    interpreter: {
      name,
      runtime,
      samples: pairwise({ ...sampleFactors, ...few }),
      passes: pairwise({ ...trainFactors, ...few }),
    },
  }[name];
});
describeSizes(matrix, plans);

it.runIf(native)("samples of every rank are the same to the last bit in any company", { timeout }, async () => {
  const sampler = matrix.sampler(native!);
  const cases = allCombinations({ rank: sampleFactors.rank, length: isFull ? sampleFactors.length : ([257] as const) });
  expect(await problemsOf(cases, (each) => matrix.independence(sampler, each))).toEqual([]);
  await sampler.dispose("done");
});

it.runIf(isFull)("gradients", { timeout }, async () => {
  const on = native ? [native, wasm] : [wasm];
  const cases = gradientCases(few.length);
  expect(await problemsOf(cases, (each) => matrix.gradient(on, each))).toEqual([]);
});
