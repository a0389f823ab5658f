/** The size matrix on a narrow model with grouped keys, biases and odd widths; all cases are compared with float64. */
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

const model = tinyModel({
  model_type: "qwen2",
  tie_word_embeddings: false,
  max_position_embeddings: 1024,
  hidden_size: 45,
  num_attention_heads: 3,
  num_key_value_heads: 1,
  head_dim: 10,
  intermediate_size: 97,
  vocab_size: 131,
  eos_token_id: null,
});
const matrix = new SizeMatrix(model);
const native = (await loadNativeRuntime(2)).runtime;
const wasm = await loadWasmRuntime(1);
const interpreter = createInterpreter();
/** The cases that the interpreter can compute within a test's time limit. */
const short = { length: [1, 100, 256, 257] } as const;
const plans = [...(native ? [native] : []), wasm, interpreter].map((runtime) => {
  const restricted = runtime.name === "interpreter" ? short : {};
  if (!isFull) {
    const samples = pairwise({ ...sampleFactors, ...restricted });
    return { name: runtime.name, runtime, samples, passes: pairwise({ ...trainFactors, ...restricted }) };
  }
  const isFast = runtime.name === "native";
  const samples = isFast ? allCombinations(sampleFactors) : manySamples;
  return { name: runtime.name, runtime, samples, passes: isFast ? allCombinations(trainFactors) : manyPasses };
});
describeSizes(matrix, plans);

const gradients = gradientCases(isFull ? trainFactors.length : [1, 100, 257]);
it(`${gradients.length} gradients`, { timeout }, async () => {
  const on = native ? [native, wasm] : [wasm];
  expect(await problemsOf(gradients, (each) => matrix.gradient(on, each))).toEqual([]);
});
