/** Sampling on devices: the size matrix compared with float64, with cases that are specific to pages and draws. */
import { afterAll, describe, expect, it } from "vitest";
import { createInterpreterDevice } from "../../runtime/interpreter-device.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { pairwise } from "../../testing/combinations.ts";
import { openTestDevice, runtimeOf, testKinds } from "../../testing/devices.ts";
import { problemsOf, type SampleCase, SizeMatrix, sampleFactors } from "../../testing/size-matrix.ts";
import { tinyModel } from "../../testing/tiny-model.ts";

const opened: Awaited<ReturnType<typeof openTestDevice>>[] = [];
afterAll(() => {
  for (const device of opened) device.dispose();
});
const kinds = ["interpreter", ...testKinds] as const;
const open = async (kind: (typeof kinds)[number]): Promise<Runtime> => {
  if (kind === "interpreter") return createInterpreterDevice({ plan: { promptTokens: 64 } });
  const device = await openTestDevice(kind);
  opened.push(device);
  return runtimeOf(device);
};

const matrix = new SizeMatrix(
  tinyModel({
    model_type: "qwen2",
    tie_word_embeddings: false,
    max_position_embeddings: 1024,
    hidden_size: 45,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 10,
    intermediate_size: 97,
    vocab_size: 131,
    eos_token_id: null,
  }),
);
/** Slower runtimes get fewer cases: WebGPU's shaders run in software, the interpreter is plain TypeScript. */
const restrictions: Record<
  (typeof kinds)[number],
  { readonly [Factor in keyof typeof sampleFactors]?: readonly (typeof sampleFactors)[Factor][number][] }
> = {
  interpreter: { length: [1, 100], rank: [1, 16] },
  cpu: { length: [1, 100, 257, 513], rank: [1, 5, 17] },
  cuda: {},
  webgpu: { length: [1, 100], rank: [5], scores: ["none", "top"], company: ["none", "before"] },
};

describe.each(kinds)("on %s", (kind) => {
  const cases = (pairwise({ ...sampleFactors, ...restrictions[kind] }) as SampleCase[]).slice(
    0,
    kind === "webgpu" ? 3 : undefined,
  );
  it(`${cases.length} ways to sample`, async () => {
    const sampler = matrix.sampler(await open(kind), { cacheBytes: 4e6 });
    expect(await problemsOf(cases, (each) => matrix.sample(sampler, each))).toEqual([]);
    await sampler.dispose("done");
  });
});
