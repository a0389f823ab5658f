/** LoRA: rank, seed and the train_* flags have the requested effect on the adapter that the server exports. */
import { type Adapter, downloadAdapter, select } from "../archive.ts";
import { group } from "../case.ts";
import { allClose, equal, fail, finite, holds, largestDifference } from "../checks.ts";
import { type Context, prompt } from "../context.ts";
import { datumOf, lesson, score } from "../data.ts";

type Flags = {
  trainAttn?: boolean;
  trainMlp?: boolean;
  trainUnembed?: boolean;
  rank?: number;
  seed?: number | undefined;
};

const attention = /\.(q|k|v|o|qkv)_proj\.lora_B/;
const mlp = /\.(gate|up|down|gate_up)_proj\.lora_B|\.w[123]\.lora_B|experts.*lora_B/;
const unembedding = /(lm_head|unembed|embed_out).*lora_(B|embedding_B)/;

/** The adapter after one step, or untrained. */
async function adapterWith(context: Context, options: Flags, trained = true): Promise<Adapter> {
  const trainer = await context.trainer(options as never);
  const learningRate = await context.measures.rate(context);
  if (trained) await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
  const { path } = await trainer.saveWeightsForSampler(context.uniqueName("lora"));
  return downloadAdapter(context, path);
}

/** Whether any matching tensor has a nonzero value. */
const moved = (adapter: Adapter, pattern: RegExp): boolean =>
  select(adapter, pattern).some(([, { values }]) => values.some((value) => value !== 0));

const names = (adapter: Adapter) => [...adapter.tensors.keys()];

export const lora = group("lora", "rank, seed and the train_* flags take effect", [
  [
    "all-flags",
    "a server that does not adapt all modules by default learns less",
    "attention, MLP and unembedding are adapted by default",
    async (context) => {
      const adapter = await adapterWith(context, {});
      holds(moved(adapter, attention), "attention projections after a step", "trained", names(adapter));
      holds(moved(adapter, mlp), "MLP projections after a step", "trained", names(adapter));
      holds(moved(adapter, unembedding), "the unembedding after a step", "trained", names(adapter));
    },
  ],
  [
    "no-attention",
    "a server that ignores the flags trains modules that should be frozen",
    "train_attn false does not train attention",
    async (context) => {
      const adapter = await adapterWith(context, { trainAttn: false });
      holds(!moved(adapter, attention), "attention projections, train_attn false", "untouched", names(adapter));
      holds(moved(adapter, mlp), "MLP projections", "trained", names(adapter));
    },
  ],
  [
    "no-mlp",
    "a server that ignores the flags trains modules that should be frozen",
    "train_mlp false does not train the MLP",
    async (context) => {
      const adapter = await adapterWith(context, { trainMlp: false });
      holds(!moved(adapter, mlp), "MLP projections, train_mlp false", "untouched", names(adapter));
      holds(moved(adapter, attention), "attention projections", "trained", names(adapter));
    },
  ],
  [
    "no-unembedding",
    "a server that ignores the flags trains modules that should be frozen",
    "train_unembed false does not train the unembedding",
    async (context) => {
      const adapter = await adapterWith(context, { trainUnembed: false });
      holds(!moved(adapter, unembedding), "the unembedding, train_unembed false", "untouched", names(adapter));
      holds(moved(adapter, attention), "attention projections", "trained", names(adapter));
    },
  ],
  [
    "rank",
    "the rank determines capacity, memory and price",
    "A is [rank, in], B is [out, rank], for every adapted matrix",
    async (context) => {
      const rank = 4;
      const adapter = await adapterWith(context, { rank }, false);
      const [a, b] = [select(adapter, /lora_A/), select(adapter, /lora_B/)];
      holds(
        a.length > 0 && a.length === b.length,
        "tensors of the archive",
        "pairs of lora_A and lora_B",
        names(adapter),
      );
      for (const [name, { shape }] of a) equal(shape[0], rank, `first dimension of ${name}`);
      for (const [name, { shape }] of b) equal(shape[1], rank, `second dimension of ${name}`);
      equal(adapter.config.r, rank, "r in adapter_config.json");
    },
  ],
  [
    "begins-at-base",
    "a new adapter must not change the model",
    "B is initialised to zero, A is not",
    async (context) => {
      const adapter = await adapterWith(context, {}, false);
      for (const [name, { values }] of select(adapter, /lora_B/)) {
        holds(
          values.every((value) => value === 0),
          `fresh ${name}`,
          "zeros",
          Array.from(values.slice(0, 4)),
        );
      }
      for (const [name, { values }] of select(adapter, /lora_A/)) {
        holds(
          values.some((value) => value !== 0),
          `fresh ${name}`,
          "nonzero values",
          "zeros",
        );
      }
    },
  ],
  [
    "fresh-equals-base",
    "training must start from the requested base model",
    "a new adapter gives the base model's log-probs",
    async (context) => {
      const seen = await score(await context.trainer());
      const sampler = await context.baseSampler();
      const base = (await sampler.computeLogprobs(prompt(lesson))).slice(1).map((value) => value ?? Number.NaN);
      const mean = base.reduce((total, value, i) => total + Math.abs(value - seen[i]!), 0) / base.length;
      holds(mean < 0.05, "mean difference between a new adapter and the base model", "below 0.05", mean);
    },
  ],
  [
    "seed",
    "users reproduce experiments with the seed",
    "the same seed gives the same initial weights",
    async (context) => {
      const [a, b] = [await adapterWith(context, { seed: 11 }, false), await adapterWith(context, { seed: 11 }, false)];
      for (const [name, { values }] of select(a, /lora_A/)) {
        allClose(b.tensors.get(name)?.values ?? [], values, 0, `${name} of the same seed`);
      }
    },
  ],
  [
    "other-seed",
    "if the seed is ignored, repeated experiments are identical",
    "another seed gives other initial weights",
    async (context) => {
      const [a, b] = [await adapterWith(context, { seed: 11 }, false), await adapterWith(context, { seed: 12 }, false)];
      const [name, { values }] = select(a, /lora_A/)[0] ?? fail("the archive", "a lora_A", names(a));
      const difference = largestDifference(values, b.tensors.get(name)?.values ?? []);
      holds(difference > 1e-6, `${name} of two seeds`, "different", "the same");
    },
  ],
  [
    "no-seed",
    "runs without a seed should be independent of each other",
    "without a seed the server draws a random one",
    async (context) => {
      const fresh = () => adapterWith(context, { seed: undefined }, false);
      const [a, b] = [await fresh(), await fresh()];
      const [name, { values }] = select(a, /lora_A/)[0] ?? fail("the archive", "a lora_A", names(a));
      const difference = largestDifference(values, b.tensors.get(name)?.values ?? []);
      holds(difference > 1e-6, `${name} of two models without seeds`, "different", "the same");
    },
  ],
  [
    "alpha",
    "an exported adapter is scaled by alpha / r, so a wrong alpha changes the model",
    "adapter_config.json has lora_alpha, which is 32 at the official service",
    async (context) => {
      const { config } = await adapterWith(context, {}, false);
      equal(finite(config.lora_alpha, "lora_alpha"), 32, "lora_alpha");
    },
  ],
  [
    "bad-rank",
    "a rank of zero trains nothing",
    "rank 0 and negative ranks are rejected",
    async (context) => {
      const session_id = await context.session();
      for (const [i, rank] of [0, -1].entries()) {
        const lora_config = { rank, train_attn: true, train_mlp: true, train_unembed: true };
        const body = { session_id, model_seq_id: i, base_model: context.baseModel, lora_config, type: "create_model" };
        await context.http.refused(`rank ${rank}`, "create_model", body);
      }
    },
  ],
  [
    "nothing-to-train",
    "a model without adapted modules cannot be trained",
    "a model with all train_* flags false is rejected",
    async (context) => {
      const lora_config = { rank: 4, train_attn: false, train_mlp: false, train_unembed: false };
      const body = {
        session_id: await context.session(),
        model_seq_id: 0,
        base_model: context.baseModel,
        lora_config,
        type: "create_model",
      };
      await context.http.refused("a model with nothing to train", "create_model", body);
    },
  ],
]);
